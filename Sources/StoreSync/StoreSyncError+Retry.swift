public import Operations

extension StoreSyncError.Code {
    /// Whether the failure may pass by itself, so that a retry of the same operation can succeed.
    ///
    /// All other failures need a decision, another request or a repair.
    public var isTemporary: Bool {
        switch self {
        case .applicationIncomplete, .busy, .remoteUnavailable, .storeChanged: true
        default: false
        }
    }
}

extension RetryPolicy {
    /// Retries an operation of this module while its error is temporary, as ``StoreSyncError/Code/isTemporary`` says.
    ///
    /// Two retries, after about one second and two: change the policy's properties to wait longer.
    public static var whileTemporary: RetryPolicy {
        RetryPolicy { ($0 as? StoreSyncError)?.code.isTemporary ?? false }
    }
}
