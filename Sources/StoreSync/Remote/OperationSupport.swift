import Keychain
import Operations
package import RemoteStorage
import StoreChanges
import SyncCryptography

/// The protocol of the `Operations` module, not Foundation's class of the same name.
typealias Operation = Operations.Operation

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

/// Compares the remote with what this device remembers, again if something seems rolled back and the memory has changed.
///
/// The memory is read before the remote, since another operation of this device may add to it meanwhile. That operation may
/// also take something back: the user gives up a missing upload, for example.
nonisolated(nonsending) func comparing<Memory: Equatable, Result>(
    with memory: nonisolated(nonsending) () async throws -> Memory,
    _ compare: nonisolated(nonsending) (Memory) async throws -> Result
) async throws -> Result {
    var known = try await memory()
    while true {
        do {
            return try await compare(known)
        } catch let error as StoreSyncError where error.code == .rolledBack {
            let now = try await memory()
            guard now != known else { throw error }
            known = now
        }
    }
}

/// Records what can't be undone any more; if this device's memory is full, in use or damaged, returns a warning.
///
/// The intention was recorded before, so the next push or pull compares it with the actual state.
nonisolated(nonsending) func warningIfForgotten(
    _ outcome: String,
    _ remember: nonisolated(nonsending) () async throws -> Void
) async throws -> [String] {
    do {
        try await remember()
        return []
    } catch let error as StoreSyncError {
        return ["The store is \(outcome), but this device couldn't record that: \(error.message)"]
    }
}

extension RemoteIdentifier {
    /// Refuses an identifier that some storage doesn't distinguish from one of the others.
    func refuseLookalike(among others: [RemoteIdentifier]) throws {
        guard let other = others.first(where: { $0.differsOnlyInCase(from: self) }) else { return }
        throw StoreSyncError(
            .invalidIdentifier,
            "\(self) differs only in case from \(other), which some storage treats as the same. Choose another name."
        )
    }
}

extension StoreSyncError {
    /// Returns what an error tells users, for a warning: sentences without the error's code and causes.
    static func sentence(about error: any Error) -> String {
        switch error {
        case let error as StoreSyncError: return error.message
        case let error as RemoteError: return StoreSyncError(error).message
        case let error as CryptographyError: return StoreSyncError(error).message
        case let error as KeychainError: return StoreSyncError(error).message
        case let error as StoreChangesError: return StoreSyncError(error).message
        case let error as OperationError: return error.message
        // Warnings tell what is left undone, while what the operation has published stays valid.
        case is CancellationError: return "The operation was cancelled before it had done this."
        default:
            let description = "\(error)"
            return description.hasSuffix(".") ? description : description + "."
        }
    }

    /// Translates an error of the storage.
    package init(_ error: RemoteError) {
        let place =
            error.path.map { path in
                error.message.contains("“\(path)”") ? " (on the remote)" : " (\(path) on the remote)"
            } ?? ""
        // If the root isn't a folder, there is no remote to read from or write to.
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
