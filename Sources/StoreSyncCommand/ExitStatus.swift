import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreChanges
import StoreSync

/// The exit statuses of sysexits.h, by error code.
enum ExitStatus {
    static func status(for code: StoreSyncError.Code) -> Int32 {
        switch code {
        case .encryptionUndecided, .encryptionMismatch, .invalidIdentifier, .invalidMessage, .invalidPassword,
            .invalidRules, .invalidUserInfo:
            EX_USAGE
        case .corrupt, .tampered, .orphan, .rolledBack, .encryptionDowngraded, .unsupportedFormat, .diverged,
            .localChanges, .documentReplaced, .unrelatedStore, .storeReplaced, .massDeletion, .newerSchema,
            .unsuitableTable, .identityTwice, .documentSynchronizes, .cannotRestore:
            EX_DATAERR
        case .storeNotFound, .applicationMissing, .clientNotFound, .documentNotFound, .documentDeleted,
            .documentMissing, .noUploadedStore, .conflictNotFound:
            EX_NOINPUT
        case .remoteUnavailable, .unsupportedStorage, .insufficientMemory: EX_UNAVAILABLE
        case .cannotWrite: EX_CANTCREAT
        case .busy, .storeChanged, .applicationChanged, .applicationIncomplete, .notExpected: EX_TEMPFAIL
        case .wrongPassword, .passwordRequired, .remoteUnauthorized, .deregistered, .notEntitled, .keychainLocked:
            EX_NOPERM
        default: EX_SOFTWARE
        }
    }
}

/// An error as the command reports it: a word for scripts, a sentence for people, an exit status for both.
struct Failure {
    let code: String
    let message: String
    let status: Int32

    init(_ error: any Error, signal: Int32?) {
        switch error {
        case let error as StoreSyncError where error.code == .busy && signal != nil:
            // What the command waited for when it was interrupted.
            self.init(CancellationError(), signal: signal)
        case let error as StoreSyncError:
            self.init(code: "\(error.code)", message: error.message, status: ExitStatus.status(for: error.code))
        case let error as RemoteError:
            self.init(StoreSyncError(error), signal: signal)
        case let error as StoreChangesError:
            self.init(StoreSyncError(error), signal: signal)
        case let error as OperationError where error.code == .temporaryDirectoryUnavailable:
            self.init(StoreSyncError.noTemporaryDirectory(error), signal: signal)
        case let error as OutputError:
            self.init(StoreSyncError(.cannotWrite, error.message), signal: signal)
        case let error as UsageError:
            self.init(code: "usage", message: error.message, status: EX_USAGE)
        case let error as ValidationError:
            self.init(code: "usage", message: error.message, status: EX_USAGE)
        case is CancellationError:
            self.init(interruptedBy: signal, leaving: "What was published before stays whole.")
        case is NothingRemoved:
            self.init(interruptedBy: signal, leaving: "Nothing was removed.")
        default:
            self.init(
                code: "unexpected",
                message: "Something unexpected went wrong: \((error as? OperationError)?.message ?? "\(error)")",
                status: EX_SOFTWARE
            )
        }
    }

    private init(interruptedBy signal: Int32?, leaving state: String) {
        self.init(code: "interrupted", message: "Interrupted. \(state)", status: 128 + (signal ?? SIGINT))
    }

    private init(code: String, message: String, status: Int32) {
        self.code = code
        self.message = message
        self.status = status
    }
}

extension StoreSyncError {
    /// The error of a command that can't create its temporary directory.
    static func noTemporaryDirectory(_ cause: any Error) -> StoreSyncError {
        StoreSyncError(
            .cannotWrite,
            """
            No temporary directory can be created in \(FileManager.default.temporaryDirectory.path). Make it writable and make \
            room on its disk, or set TMPDIR to another directory.
            """,
            cause: cause
        )
    }
}
