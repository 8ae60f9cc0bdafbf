import RemoteStorage
package import StoreChanges

extension StoreSyncError {
    /// Translates an error of capturing, merging or writing changes.
    package init(_ error: StoreChangesError) {
        let code: Code =
            switch error.code {
            case .busy: .busy
            case .cannotRestore: .cannotRestore
            case .cannotWrite: .cannotWrite
            case .conflictNotFound: .conflictNotFound
            case .identityTwice: .identityTwice
            case .invalidRules: .invalidRules
            case .massDeletion: .massDeletion
            case .newerSchema: .newerSchema
            case .setsMissing: .remoteUnavailable
            case .storeNotFound: .storeNotFound
            case .storeReplaced: .storeReplaced
            case .unsuitableTable: .unsuitableTable
            case .unsupportedFormat: .unsupportedFormat
            default: .corrupt
            }
        self.init(code, error.message, cause: error)
    }

    /// Runs `body`, and translates an error of capturing, merging or writing changes.
    static func translating<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as StoreChangesError {
            throw StoreSyncError(error)
        }
    }

    /// Translates the error of a file that can't be read.
    init(_ error: StoreChangesError, at path: RemotePath) {
        self.init(error)
        message = "\(path) on the remote can't be read. \(message)"
    }
}
