import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// The exit statuses of sysexits.h, by error code.
enum ExitStatus {
    static let usage: Int32 = 64
    static let data: Int32 = 65
    static let noInput: Int32 = 66
    static let unavailable: Int32 = 69
    static let software: Int32 = 70
    static let cannotCreate: Int32 = 73
    static let tryAgain: Int32 = 75
    static let notPermitted: Int32 = 77

    static func status(for code: StoreSyncError.Code) -> Int32 {
        switch code {
        case .encryptionUndecided, .encryptionMismatch, .invalidIdentifier, .invalidMessage, .invalidPassword: usage
        case .corrupt, .tampered, .orphan, .rolledBack, .encryptionDowngraded, .unsupportedFormat, .diverged,
            .localChanges, .documentReplaced, .unrelatedStore:
            data
        case .storeNotFound, .applicationMissing, .clientNotFound, .documentNotFound, .documentDeleted,
            .documentMissing, .noUploadedStore:
            noInput
        case .remoteUnavailable, .unsupportedStorage: unavailable
        case .cannotWrite: cannotCreate
        case .busy, .storeChanged, .applicationChanged, .applicationIncomplete, .notExpected: tryAgain
        case .wrongPassword, .passwordRequired, .remoteUnauthorized, .deregistered, .notEntitled, .keychainLocked:
            notPermitted
        default: software
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
        case let error as StoreSyncError:
            self.init(code: "\(error.code)", message: error.message, status: ExitStatus.status(for: error.code))
        case let error as RemoteError:
            self.init(StoreSyncError(error), signal: signal)
        case let error as OperationError where error.code == .temporaryDirectoryUnavailable:
            let directory = FileManager.default.temporaryDirectory.path
            self.init(
                StoreSyncError(
                    .cannotWrite,
                    "No temporary directory can be created in \(directory). Make it writable, or set TMPDIR to another directory.",
                    cause: error
                ),
                signal: signal
            )
        case let error as UsageError:
            self.init(code: "usage", message: error.message, status: ExitStatus.usage)
        case let error as ValidationError:
            self.init(code: "usage", message: error.message, status: ExitStatus.usage)
        case is CancellationError:
            self.init(
                code: "interrupted",
                message: "Interrupted. What was published before stays whole.",
                status: 128 + (signal ?? 2)
            )
        default:
            self.init(
                code: "unexpected",
                message: "Something unexpected went wrong: \(error)",
                status: ExitStatus.software
            )
        }
    }

    private init(code: String, message: String, status: Int32) {
        self.code = code
        self.message = message
        self.status = status
    }
}
