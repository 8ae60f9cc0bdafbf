public import Foundation
public import Keychain
public import Operations
public import RemoteStorage
public import SyncCryptography

/// Answers what an ``ApplicationSyncManager`` can't know.
///
/// Asked on the main actor, so that it may show something.
///
/// The answers may take their time: the operation that waits is paused and holds up no other. They should throw when
/// their task is cancelled.
@MainActor
public protocol ApplicationSyncDelegate: AnyObject, Sendable {
    /// Whether a new application is encrypted and by which password, what the password of one that is encrypted is, or
    /// whether it's all right to join one that isn't.
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision

    /// Whether a document that isn't there is made. No ends the registration as cancelled.
    func shouldCreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool

    /// Whether a document that was deleted is made anew. No ends the registration as cancelled.
    func shouldRecreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool
}

extension ApplicationSyncDelegate {
    /// Yes.
    public func shouldCreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool {
        true
    }

    /// No: somebody deleted it on purpose.
    public func shouldRecreate(
        _ document: RemoteIdentifier,
        in application: RemoteIdentifier
    ) async throws -> Bool { false }
}

/// Synchronizes the documents of one application with one remote: makes the operations and supervises them.
///
/// ```swift
/// let manager = ApplicationSyncManager(
///     application: try RemoteIdentifier("org.example.notes"),
///     clientDescription: "my laptop",
///     backend: LocalFolderBackend(root: share),
///     state: try StateDirectory(url: support),
///     delegate: self)
/// let notes = manager.document(try RemoteIdentifier("notes"))
/// let upload = try await notes.upload(storeAt: database).value
/// ```
///
/// Every operation registers what isn't registered yet; what is registered already is taken as it is.
public actor ApplicationSyncManager {
    /// The application.
    public nonisolated let application: RemoteIdentifier
    /// What runs the operations.
    ///
    /// Suspend it, cancel everything, look at progress: it's an ordinary supervisor.
    public nonisolated let supervisor: OperationSupervisor

    nonisolated let backend: any RemoteBackend
    nonisolated let state: StateDirectory
    private nonisolated let request: ApplicationRegistrationRequest
    private nonisolated let asker: Asker

    /// Holds the delegate weakly, and refuses in its name when it's gone.
    struct Asker: Sendable {
        weak let delegate: (any ApplicationSyncDelegate)?

        func ask<Answer: Sendable>(
            _ question: @MainActor (any ApplicationSyncDelegate) async throws -> Answer
        ) async throws -> Answer {
            guard let delegate else {
                throw StoreSyncError(
                    .encryptionUndecided,
                    "The delegate that was to be asked is gone. Keep it as long as the manager."
                )
            }
            return try await question(delegate)
        }
    }

    /// Creates a manager.
    ///
    /// - Parameters:
    ///   - application: The application's identifier.
    ///   - clientDescription: What people call this device.
    ///   - userInfo: Anything to be saved with this client, and returned with lists of clients.
    ///   - readMe: The text that tells people who find the application's directory what it's for.
    ///   - requiresEncryption: Whether only an encrypted application will do.
    ///   - backend: Where everything goes.
    ///   - state: This device's memory.
    ///   - supervisor: What runs the operations.
    ///   - delegate: Who is asked. Held weakly.
    public init(
        application: RemoteIdentifier,
        clientDescription: String,
        userInfo: [String: PropertyListValue] = [:],
        readMe: String = ApplicationRegistrationRequest.defaultReadMe,
        requiresEncryption: Bool = false,
        backend: any RemoteBackend,
        state: StateDirectory,
        supervisor: OperationSupervisor = OperationSupervisor(),
        delegate: any ApplicationSyncDelegate
    ) {
        self.application = application
        self.backend = backend
        self.state = state
        self.supervisor = supervisor
        request = ApplicationRegistrationRequest(
            application: application,
            clientDescription: clientDescription,
            userInfo: userInfo,
            readMe: readMe,
            requiresEncryption: requiresEncryption
        )
        asker = Asker(delegate: delegate)
    }

    /// Registers the application and this device as its client.
    ///
    /// - Parameters:
    ///   - mayCreate: Whether the application is made if it isn't there.
    ///   - startsAnew: Whether this device is set up anew, as another client, after it was deregistered.
    /// - Returns: The registration's handle.
    @discardableResult
    public nonisolated func register(
        mayCreate: Bool = true,
        startsAnew: Bool = false
    ) -> OperationHandle<ApplicationRegistration> {
        supervisor.add(registration(mayCreate: mayCreate, startsAnew: startsAnew))
    }

    /// Registers as ``register(mayCreate:startsAnew:)``, but makes nothing before there is a store that can be uploaded.
    ///
    /// - Parameter store: The store.
    /// - Returns: The registration's handle.
    public nonisolated func register(uploading store: URL) -> OperationHandle<ApplicationRegistration> {
        supervisor.add(StoreCheckOperation(store)).then { [self] in registration(mayCreate: true) }
    }

    nonisolated func registration(mayCreate: Bool, startsAnew: Bool = false) -> ApplicationRegistrationOperation {
        var request = request
        request.mayCreateApplication = mayCreate
        request.startsAnew = startsAnew
        return ApplicationRegistrationOperation(request, backend: backend, state: state, delegate: decision)
    }

    private nonisolated var decision: ApplicationRegistrationOperation.Delegate {
        { [asker, application] question in
            try await asker.ask { try await $0.decideEncryption(question, of: application) }
        }
    }

    /// The application's keychain on this device, made where there is none.
    ///
    /// Its synchronizable items travel to the application's other devices by ``synchronizeKeychain(mayCreate:)``, if the
    /// application is encrypted; all others stay here. A device that is set up anew for an application that was made anew
    /// loses what was in it.
    ///
    /// - Parameter entitlements: Which access groups are the caller's.
    /// - Returns: The keychain, unlocked by the secret in the state directory.
    /// - Throws: ``StoreSyncError`` with code `keychainLocked`, `cannotWrite`, `corrupt`, `busy` or `unsupportedFormat`.
    public func keychain(entitlements: Entitlements) async throws -> FileKeychain {
        try await translatingErrors {
            let key = ApplicationKey(remote: backend.identity, application: application.rawValue)
            return try await state.keychain(for: key, entitlements: entitlements, on: nil)
        }
    }

    /// Brings the synchronizable items of the application's keychain in step with those of its other devices.
    ///
    /// ```swift
    /// let keychain = try await manager.keychain(entitlements: entitlements)
    /// try await keychain.add(SecretBytes("secret"), as: item)
    /// let synchronization = try await manager.synchronizeKeychain().value
    /// ```
    ///
    /// Registers first. In an application that isn't encrypted, items don't travel.
    ///
    /// - Parameter mayCreate: Whether the application is made if it isn't there.
    /// - Returns: The synchronization's handle.
    @discardableResult
    public nonisolated func synchronizeKeychain(
        mayCreate: Bool = false
    ) -> OperationHandle<KeychainSynchronization> {
        synchronizeKeychain(after: register(mayCreate: mayCreate))
    }

    /// Does so once a registration that was added has completed, beside whatever else waits for it.
    ///
    /// - Parameter registration: A registration of this manager.
    /// - Returns: The synchronization's handle.
    @discardableResult
    public nonisolated func synchronizeKeychain(
        after registration: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<KeychainSynchronization> {
        registration.then { [backend, state] registered in
            KeychainSynchronizationOperation(registered, backend: backend, state: state)
        }
    }

    /// The manager of one of the application's documents.
    public nonisolated func document(_ document: RemoteIdentifier) -> DocumentSyncManager {
        DocumentSyncManager(document, of: self)
    }

    /// Lists clients, documents and stores.
    ///
    /// Registers nobody and changes nothing.
    public nonisolated func status() -> OperationHandle<ApplicationStatus> {
        supervisor.add(StatusOperation(application, backend: backend, state: state, delegate: decision))
    }

    /// Reads every file of the application and checks it.
    ///
    /// Registers nobody.
    ///
    /// - Parameter repairs: Whether what this device left unfinished is finished, and what it left behind removed.
    /// - Returns: The verification's handle.
    public nonisolated func verify(repairs: Bool = false) -> OperationHandle<VerificationReport> {
        supervisor.add(
            VerificationOperation(application, repairs: repairs, backend: backend, state: state, delegate: decision)
        )
    }

    /// Removes a client that is gone, from the application or from one of its documents.
    ///
    /// What it has uploaded stays until another client's upload includes it.
    ///
    /// - Parameters:
    ///   - client: The client, not this device.
    ///   - document: The document that it is removed from; from the application where this is `nil`.
    /// - Returns: The removal's handle.
    public nonisolated func removeClient(
        _ client: RemoteIdentifier,
        from document: RemoteIdentifier? = nil
    ) -> OperationHandle<ClientRemoval> {
        supervisor.add(
            ClientRemovalOperation(
                client,
                of: application,
                from: document,
                backend: backend,
                state: state,
                delegate: decision
            )
        )
    }

    /// Changes the password of the application, if it's encrypted: one file is written, nothing is encrypted anew.
    ///
    /// - Parameter password: The new password.
    /// - Returns: The handle, whose value is how many passwords there have been.
    public nonisolated func changePassword(to password: Password) -> OperationHandle<Int> {
        supervisor.add(
            PasswordChangeOperation(
                to: password,
                of: application,
                parameters: request.passwordParameters,
                backend: backend,
                state: state,
                delegate: decision
            )
        )
    }

    /// Sets this device up by a passcode, instead of asking the delegate about encryption.
    ///
    /// - Returns: A setup of its own for every call, which adds its operations to ``supervisor``.
    public nonisolated func passcodeSetup() -> PasscodeSetup {
        PasscodeSetup(request, backend: backend, state: state, supervisor: supervisor)
    }

    nonisolated func register(
        _ request: DocumentRegistrationRequest,
        after registration: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<DocumentRegistration> {
        registration.then { [backend, state, asker, application] registered in
            DocumentRegistrationOperation(request, application: registered, backend: backend, state: state) {
                question in
                try await asker.ask { delegate in
                    switch question {
                    case .createDocument: try await delegate.shouldCreate(request.document, in: application)
                    case .recreateDeletedDocument: try await delegate.shouldRecreate(request.document, in: application)
                    }
                }
            }
        }
    }
}
