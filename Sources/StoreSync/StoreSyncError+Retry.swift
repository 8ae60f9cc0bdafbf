import Foundation
import GRDB
public import Operations
import RemoteStorage
import StoreChanges
import SystemPackage

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

    /// Whether a watch retries after the failure, also before its first success.
    ///
    /// Besides temporary failures, the reason may be a share that isn't mounted, or a storage on which files are still
    /// arriving. After `identityTwice`, this device continues as another client.
    var isRetriedByWatch: Bool {
        switch self {
        case .applicationMissing, .documentMissing, .identityTwice, .noUploadedStore, .rolledBack: true
        default: isTemporary
        }
    }
}

extension StoreSyncError {
    /// Whether a watch retries after the error.
    ///
    /// After its first success a watch also waits for a store that is missing, since an editor may replace the file or a share
    /// be away, for free space, and for a storage that refuses what it has allowed before.
    ///
    /// - Parameters:
    ///   - afterSuccess: Whether the watch has synchronized before.
    ///   - isDiskFull: Whether the disk that holds the store is full.
    /// - Returns: Whether it retries.
    func isRetriedByWatch(afterSuccess: Bool, isDiskFull: () -> Bool) -> Bool {
        code.isRetriedByWatch
            || afterSuccess
                && (isOfMissingStore || isRefusalByStorage
                    || code == .cannotWrite && Self.isOfNoSpace(cause, isDiskFull))
    }

    /// Whether the storage refused the request.
    ///
    /// If it has allowed that before, a gateway, a restart or an expired session may be the reason.
    var isRefusalByStorage: Bool {
        guard let code = (cause as? RemoteError)?.code else { return false }
        return [.unauthorized, .notAllowed, .unsupported].contains(code)
    }

    /// Whether there is no file where the store was.
    private var isOfMissingStore: Bool {
        let cause = (cause as? StoreChangesError)?.cause ?? cause
        return code == .storeNotFound && cause as? Errno == .noSuchFileOrDirectory
    }

    /// Whether nothing could be written because a disk or the storage is full.
    ///
    /// A quota that is used up is recognized too, but not while SQLite writes, which reports it as it does faults of a disk.
    private static func isOfNoSpace(_ cause: (any Error)?, _ isDiskFull: () -> Bool) -> Bool {
        switch cause {
        case let error as RemoteError: error.code == .noSpace
        case let error as StoreChangesError: isOfNoSpace(error.cause, isDiskFull)
        case let error as DatabaseError: isOfNoSpace(error.extendedResultCode, isDiskFull)
        case let error as Errno: [.noSpace, .diskQuotaExceeded].contains(error)
        case let error as CocoaError: error.code == .fileWriteOutOfSpace
        default: false
        }
    }

    /// Whether SQLite lacked space.
    ///
    /// Some of these codes have other reasons, too, unless the disk is full.
    private static func isOfNoSpace(_ code: ResultCode, _ isDiskFull: () -> Bool) -> Bool {
        switch code {
        case .SQLITE_FULL: true
        // The file beside a write-ahead log that all connections share couldn't grow.
        case .SQLITE_IOERR_SHMSIZE: true
        case .SQLITE_IOERR_WRITE, .SQLITE_IOERR_SHMOPEN, .SQLITE_CANTOPEN: isDiskFull()
        default: false
        }
    }
}

extension RetryPolicy {
    /// Retries an operation while its error is temporary, as ``StoreSyncError/Code/isTemporary`` says.
    ///
    /// An operation of your own that calls a backend is retried while the storage can't be reached. There are two retries,
    /// after about one second and two: change the policy's properties to wait longer.
    public static var whileTemporary: RetryPolicy {
        RetryPolicy { error in
            switch error {
            case let error as StoreSyncError: error.code.isTemporary
            case let error as RemoteError: error.code == .unavailable
            default: false
            }
        }
    }
}
