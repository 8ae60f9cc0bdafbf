import Keychain
import Operations
package import RemoteStorage
import SyncCryptography
import ThreadSupport

/// Foundation has a class of that name; in this module it means ours.
typealias Operation = Operations.Operation

extension OperationContext {
    /// Runs `body`, which may block, where that holds up nobody.
    func blocking<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await runBlocking(on: blockingExecutor, body)
    }
}

extension Optional where Wrapped: Sendable {
    func mapAsync<Result>(_ transform: @Sendable (Wrapped) async throws -> Result) async rethrows -> Result? {
        guard let self else { return nil }
        return try await transform(self)
    }
}

/// Runs `body` and turns the errors of lower layers into ``StoreSyncError``, which says what to do about them.
nonisolated(nonsending) func translatingErrors<Result>(
    _ body: nonisolated(nonsending) () async throws -> Result
) async throws -> Result {
    do {
        return try await body()
    } catch let error as RemoteError {
        throw StoreSyncError(error)
    } catch let error as CryptographyError {
        throw StoreSyncError(error)
    } catch let error as KeychainError {
        throw StoreSyncError(error)
    }
}

/// Remembers what can't be undone any more; if this device's memory can't be written, that's a warning.
///
/// What was about to happen was noted before: the next push or pull compares that with what there is.
nonisolated(nonsending) func warningOfFullDisk(
    _ place: String,
    _ remember: nonisolated(nonsending) () async throws -> Void
) async throws -> [String] {
    do {
        try await remember()
        return []
    } catch let error as StoreSyncError where error.code == .cannotWrite {
        return ["The store is \(place), but this device couldn't note that: \(error.message)"]
    }
}

extension RemoteIdentifier {
    /// Refuses a name that some storage takes for one of the others.
    func refuseLookalike(among others: [RemoteIdentifier]) throws {
        guard let other = others.first(where: { $0.differsOnlyInCase(from: self) }) else { return }
        throw StoreSyncError(
            .invalidIdentifier,
            "\(self) differs only in case from \(other), which some storage takes for the same. Choose another name."
        )
    }
}

extension StoreSyncError {
    /// What an error of the storage means for whoever synchronizes.
    package init(_ error: RemoteError) {
        let place = error.path.map { " (\($0) on the remote)" } ?? ""
        // A root that is no folder isn't a remote that something can be written to or read from.
        let isNoRemote = error.code == .wrongKind && error.path == .root
        self.init(isNoRemote ? .remoteUnavailable : Self.code(for: error.code), error.message + place, cause: error)
    }

    private static func code(for code: RemoteError.Code) -> Code {
        switch code {
        case .invalidIdentifier, .invalidPath: .invalidIdentifier
        case .noSpace, .notAllowed, .wrongKind, .alreadyExists, .preconditionFailed: .cannotWrite
        case .unauthorized: .remoteUnauthorized
        case .unsupported: .unsupportedStorage
        case .wrongLength: .corrupt
        default: .remoteUnavailable
        }
    }
}
