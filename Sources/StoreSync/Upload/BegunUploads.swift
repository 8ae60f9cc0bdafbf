import Operations
import ThreadSupport

/// The uploads that operations of this process may have published.
///
/// A later attempt of an operation, perhaps with another instance, recognizes its own upload.
struct BegunUploads: Sendable {
    private let uploads = Locked<[OperationID: [UploadName: [String]]]>([:])

    /// Remembers that an operation is about to publish an upload.
    ///
    /// - Parameters:
    ///   - name: The upload.
    ///   - operation: The operation.
    ///   - warnings: The warnings about what the upload replaces.
    func note(_ name: UploadName, by operation: OperationID, _ warnings: [String]) {
        uploads.withLock { $0[operation, default: [:]][name] = warnings }
    }

    /// The warnings about an upload that an operation has begun to publish; `nil` if it hasn't.
    func warnings(about name: UploadName, by operation: OperationID) -> [String]? {
        uploads.withLock { $0[operation]?[name] }
    }

    /// Forgets the uploads of an operation, which makes no further attempt.
    func forgetUploads(by operation: OperationID) {
        uploads.withLock { $0[operation] = nil }
    }
}
