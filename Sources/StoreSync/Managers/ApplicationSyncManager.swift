public import Foundation
public import Keychain
public import Operations
public import RemoteStorage
public import SyncCryptography

/// Answers the questions that an ``ApplicationSyncManager`` can't decide.
///
/// The manager asks on the main actor, so that the delegate can show a user interface.
///
/// An answer may take long: the operation that waits is paused and blocks no other. The methods should throw when their
/// task is cancelled.
@MainActor
public protocol ApplicationSyncDelegate: AnyObject, Sendable {
    /// Decides whether to encrypt a new application, gives the password of an encrypted one, or allows joining an
    /// unencrypted one.
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision

    /// Whether to create a document that doesn't exist.
    ///
    /// `false` ends the registration as cancelled.
    func shouldCreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool

    /// Whether to recreate a document that was deleted.
    ///
    /// `false` ends the registration as cancelled.
    func shouldRecreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool
}

extension ApplicationSyncDelegate {
    /// Returns `true`.
    public func shouldCreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool {
        true
    }

    /// Returns `false`: a user deleted the document on purpose.
    public func shouldRecreate(
        _ document: RemoteIdentifier,
        in application: RemoteIdentifier
    ) async throws -> Bool { false }
}

/// Synchronizes the documents of one application with one remote: creates the operations and supervises them.
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
/// Every operation registers what isn't registered yet, and uses existing registrations as they are. Logs and explanations of
/// operations name this device's client, except those of the first registration and of what was added before it completed.
public struct ApplicationSyncManager: Sendable {
    /// The application.
    public let application: RemoteIdentifier
    /// The supervisor that runs the operations.
    ///
    /// It's an ordinary supervisor: suspend it, cancel everything, or observe its progress.
    public let supervisor: OperationSupervisor

    let backend: any RemoteBackend
    let state: StateDirectory
    private let request: ApplicationRegistrationRequest
    private let asker: Asker

    /// Holds the delegate weakly, and throws if it was released.
    struct Asker: Sendable {
        weak let delegate: (any ApplicationSyncDelegate)?

        func ask<Answer: Sendable>(
            _ question: @MainActor (any ApplicationSyncDelegate) async throws -> Answer
        ) async throws -> Answer {
            guard let delegate else {
                throw StoreSyncError(
                    .encryptionUndecided,
                    "The delegate that decides was released. Keep a reference to it as long as you use the manager."
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
    ///   - backend: The remote storage.
    ///   - state: This device's state directory.
    ///   - supervisor: The supervisor that runs the operations.
    ///   - delegate: The delegate that answers questions. Held weakly.
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
    ///   - mayCreate: Whether the application is created if it doesn't exist.
    ///   - registersAgain: Whether this device is set up again, as another client, after it was deregistered.
    /// - Returns: The registration's handle.
    @discardableResult
    public func register(
        mayCreate: Bool = true,
        registersAgain: Bool = false
    ) -> OperationHandle<ApplicationRegistration> {
        supervisor.add(
            registration(mayCreate: mayCreate, registersAgain: registersAgain),
            // A device that is set up again becomes another client.
            options: registersAgain ? nil : options
        )
    }

    /// Registers as ``register(mayCreate:registersAgain:)`` does, but creates nothing unless there is a store that can be
    /// uploaded.
    ///
    /// - Parameter store: The store.
    /// - Returns: The registration's handle.
    public func register(uploading store: URL) -> OperationHandle<ApplicationRegistration> {
        supervisor.add(StoreCheckOperation(store), options: options)
            .then(options: options) { [self] in registration(mayCreate: true) }
    }

    func registration(mayCreate: Bool, registersAgain: Bool = false) -> ApplicationRegistrationOperation {
        var request = request
        request.mayCreateApplication = mayCreate
        request.registersAgain = registersAgain
        return ApplicationRegistrationOperation(request, backend: backend, state: state, delegate: decision)
    }

    /// The options of every operation: they name this device's client in logs and explanations, once it has one.
    var options: OperationOptions? {
        state.knownClient(of: key).map { OperationOptions(clientIdentifier: $0) }
    }

    private var key: ApplicationKey {
        ApplicationKey(remote: backend.identity, application: application.rawValue)
    }

    var decision: ApplicationRegistrationOperation.Delegate {
        { [asker, application] question in
            try await asker.ask { try await $0.decideEncryption(question, of: application) }
        }
    }

    /// The application's keychain on this device, created if it doesn't exist.
    ///
    /// ``synchronizeKeychain(mayCreate:)`` exchanges its synchronizable items with the application's other devices, if
    /// the application is encrypted. All other items stay on this device. If this device is set up again for a
    /// recreated application, the keychain loses its former items.
    ///
    /// - Parameter entitlements: The access groups that the caller is entitled to.
    /// - Returns: The keychain, unlocked by the secret in the state directory.
    /// - Throws: ``StoreSyncError`` with code `keychainLocked`, `cannotWrite`, `corrupt`, `busy` or `unsupportedFormat`.
    public func keychain(entitlements: Entitlements) async throws -> FileKeychain {
        try await translatingErrors {
            try await state.keychain(for: key, entitlements: entitlements, on: nil)
        }
    }

    /// Synchronizes the synchronizable items of the application's keychain with its other devices.
    ///
    /// ```swift
    /// let keychain = try await manager.keychain(entitlements: entitlements)
    /// try await keychain.add(SecretBytes("secret"), as: item)
    /// let synchronization = try await manager.synchronizeKeychain().value
    /// ```
    ///
    /// Registers first. If the application isn't encrypted, no items are exchanged.
    ///
    /// - Parameter mayCreate: Whether the application is created if it doesn't exist.
    /// - Returns: The synchronization's handle.
    @discardableResult
    public func synchronizeKeychain(
        mayCreate: Bool = false
    ) -> OperationHandle<KeychainSynchronization> {
        synchronizeKeychain(after: register(mayCreate: mayCreate))
    }

    /// Synchronizes the keychain once a registration has completed, concurrently with other operations that wait for
    /// it.
    ///
    /// - Parameter registration: A registration of this manager.
    /// - Returns: The synchronization's handle.
    @discardableResult
    public func synchronizeKeychain(
        after registration: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<KeychainSynchronization> {
        registration.then(options: options) { [backend, state] registered in
            KeychainSynchronizationOperation(registered, backend: backend, state: state)
        }
    }

    /// The manager of one of the application's documents.
    ///
    /// - Parameters:
    ///   - document: The document.
    ///   - description: What people call the document, if it's created; the store's file name if this is `nil`.
    ///   - userInfo: Any values to be saved with the document when it's created, and returned with lists of documents.
    /// - Returns: A manager that creates the document's operations.
    public func document(
        _ document: RemoteIdentifier,
        description: String? = nil,
        userInfo: [String: PropertyListValue] = [:]
    ) -> DocumentSyncManager {
        DocumentSyncManager(document, description: description, userInfo: userInfo, of: self)
    }

    /// Lists clients, documents and stores.
    ///
    /// Doesn't register this device, and changes nothing.
    public func status() -> OperationHandle<ApplicationStatus> {
        supervisor.add(
            StatusOperation(application, backend: backend, state: state, delegate: decision),
            options: options
        )
    }

    /// Reads every file of the application and checks it.
    ///
    /// Doesn't register this device.
    ///
    /// - Parameter repairs: Whether to finish what this device left unfinished, and to remove what it left behind.
    /// - Returns: The verification's handle.
    public func verify(repairs: Bool = false) -> OperationHandle<VerificationReport> {
        supervisor.add(
            VerificationOperation(application, repairs: repairs, backend: backend, state: state, delegate: decision),
            options: options
        )
    }

    /// Changes the password of the application, if it's encrypted: writes one file, and re-encrypts nothing.
    ///
    /// - Parameter password: The new password.
    /// - Returns: The handle, whose value is how many passwords the application has had.
    public func changePassword(to password: Password) -> OperationHandle<Int> {
        supervisor.add(
            PasswordChangeOperation(
                to: password,
                of: application,
                parameters: request.passwordParameters,
                backend: backend,
                state: state,
                delegate: decision
            ),
            options: options
        )
    }

    /// Sets this device up with a passcode, instead of asking the delegate about encryption.
    ///
    /// - Returns: A new setup for every call, which adds its operations to ``supervisor``.
    public func passcodeSetup() -> PasscodeSetup {
        PasscodeSetup(request, backend: backend, state: state, supervisor: supervisor)
    }

    func register(
        _ request: DocumentRegistrationRequest,
        after registration: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<DocumentRegistration> {
        registration.then(options: options) { [backend, state, asker, application] registered in
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
