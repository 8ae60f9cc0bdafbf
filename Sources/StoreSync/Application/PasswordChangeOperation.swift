import Foundation
public import Operations
public import RemoteStorage
public import SyncCryptography

/// Changes the password of an encrypted application.
///
/// The operation writes only the file that wraps the key. It encrypts nothing else again, and devices that have the
/// keys continue to work. It revokes nothing from an attacker who kept the former file and knows the former password;
/// only recreating the application does.
///
/// The operation is paused while it asks for a password, so that other operations run meanwhile.
///
/// If it's cancelled before the write, it ends as cancelled and nothing is changed. If it's cancelled later, it
/// finishes.
public actor PasswordChangeOperation: Operation {
    /// Asks for the new password, and pauses the operation while a person is asked.
    package typealias Question = @Sendable (OperationContext) async throws -> Password

    private let access: ApplicationAccess
    private let password: Question
    private let parameters: PasswordParameters?
    private let hooks: any ApplicationRegistrationHooks

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - password: The new password.
    ///   - application: The application.
    ///   - parameters: The cost of hashing the new password, if it's more than the former one's.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the former password if this device doesn't have the keys.
    public init(
        to password: Password,
        of application: RemoteIdentifier,
        parameters: PasswordParameters? = nil,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        self.init(
            asking: { _ in password },
            of: application,
            parameters: parameters,
            backend: backend,
            state: state,
            delegate: delegate
        )
    }

    /// Creates an operation that asks for the new password once the former one has opened the application.
    package init(
        asking password: @escaping Question,
        of application: RemoteIdentifier,
        parameters: PasswordParameters?,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate?
    ) {
        access = ApplicationAccess(application, backend: backend, state: state, delegate: delegate)
        self.password = password
        self.parameters = parameters
        hooks = backend.applicationRegistrationHooks
    }

    /// Changes the password, and returns how many passwords there have been.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing`, `passwordRequired`, `encryptionMismatch`,
    ///   `deregistered`, `unsupportedStorage` and `busy`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> Int {
        try await translatingErrors {
            let (former, master) = try await unlock(context)
            context.reportProgress(0.3)
            let changed = try await KeyFile(former).changingPassword(
                to: try await password(context),
                masterKey: master,
                parameters: parameters,
                executor: context.blockingExecutor
            )
            context.reportProgress(0.8)
            try Task.checkCancellation()
            // Only one operation of this device relies on the claim of its client.
            let lock = try await access.state.lock(.password(access.key), .exclusive, for: context)
            defer { lock.release() }
            // A device that isn't registered needs an identifier too, to recognize its own claim after an interruption.
            let client = try await context.blocking { [access] in try access.state.clientIdentifier(for: access.key) }
            // The write changes the password, and an interruption must not hide that.
            let isChanged = try await context.shielded {
                try await self.write(changed, insteadOf: former, by: client, context)
            }
            guard isChanged else { throw lostRace }
            return Int(changed.passwordVersion)
        }
    }

    /// Returns the file that wraps the key, and the key, which the former password opens if this device doesn't have it.
    ///
    /// - Throws: ``StoreSyncError`` if the password can't be changed.
    private func unlock(_ context: OperationContext) async throws -> (passwordTest: [UInt8], master: MasterKey) {
        let remembered = try await access.unlocking.fetch(context)
        guard try await hooks.applicationDirectoryExists(access.hierarchy) else { throw access.missing }
        let seal = try await access.unlocking.seal(remembered, context)
        try await access.unlocking.refuseRemovedClient(seal, context)
        // An interrupted write must leave the former file.
        guard try await access.backend.capabilities().contains(.atomicReplace) else {
            throw StoreSyncError(
                .unsupportedStorage,
                """
                \(access.backend.identity) doesn't replace files in one step, so the only file that opens the application \
                could be lost. The password was not changed.
                """
            )
        }
        guard let master = seal.key?.master, let former = remembered.files.passwordTest else {
            throw StoreSyncError(
                .encryptionMismatch,
                "\(access.application) is not encrypted, so it has no password."
            )
        }
        return (former, master)
    }

    /// Writes the changed file and notes that on this device; returns whether the file was still the former one.
    private func write(
        _ changed: KeyFile,
        insteadOf former: [UInt8],
        by client: String,
        _ context: OperationContext
    ) async throws -> Bool {
        let isChanged = try await hooks.changePassword(from: former, to: changed, by: client, access.hierarchy)
        guard isChanged else { return false }
        do {
            try await context.blocking { [access] in try access.state.noteKeyFile(changed, for: access.key) }
        } catch let error as StoreSyncError {
            throw StoreSyncError(
                error.code,
                """
                The password of \(access.application) is changed, but this device couldn't note that. \
                \(error.message) Then run the command again with the same new password.
                """,
                cause: error
            )
        }
        return true
    }

    /// The error of a write that another device's has overtaken.
    private var lostRace: StoreSyncError {
        StoreSyncError(
            .busy,
            """
            The new password of \(access.application) was not saved, probably because another device is changing \
            the password. Find out which password is valid now, then try again.
            """
        )
    }
}
