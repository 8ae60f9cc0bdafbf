public import Foundation
public import Operations
public import RemoteStorage
public import SyncCryptography

/// Synchronizes the documents of one application with one remote: creates the operations and supervises them.
///
/// ```swift
/// let manager = ApplicationSyncManager(
///     application: try RemoteIdentifier("org.example.notes"),
///     clientDescription: "my laptop",
///     backend: LocalFolderBackend(root: share),
///     state: try await .open(at: support),
///     delegate: self)
/// let notes = manager.document(try RemoteIdentifier("notes"))
/// let upload = try await notes.upload(storeAt: database).value
/// ```
///
/// Every operation registers what isn't registered yet, and uses existing registrations as they are. Logs and explanations of
/// operations name this device's client, except those of the first registration and of what was added before it completed.
///
/// **Lifetime.** Have one ``StateDirectory`` in a process, and one manager for each application. Managers that must coexist
/// get the same ``supervisor``. Otherwise, their operations on one document or store don't wait for each other, but fail with
/// ``StoreSyncError/Code/busy``. Operations outlive the manager, except what its supervisor holds back when it's released.
///
/// **Options and dependencies.** Each method that adds operations takes the operations that must end first, and options.
/// The dependencies hold back all that the method adds, registrations included. Priority, user info, keys, deadline,
/// retry policy and whether work continues in the background apply to all that it adds; name and progress units only to the
/// operation whose handle it returns. A coalescing key has an effect only in methods that add a single operation, such as
/// ``status(after:options:)``; uploads, downloads, synchronizations and vacuums add several. To the keys, the manager adds
/// those of the document and the store that are in use, so uploads, downloads, synchronizations, vacuums and removals of
/// documents wait for each other instead of failing with ``StoreSyncError/Code/busy``.
///
/// Cancelling a handle cancels what its method added, registrations included, and nothing that the caller gave it.
public struct ApplicationSyncManager: Sendable {
    /// The application.
    public let application: RemoteIdentifier
    /// The supervisor that runs the operations.
    ///
    /// It's an ordinary supervisor: suspend it, cancel everything, or observe its progress.
    public let supervisor: OperationSupervisor

    let backend: any RemoteBackend
    let state: StateDirectory
    /// The retry policy of operations whose options have none.
    ///
    /// By default, an operation is retried while its error may pass by itself: see ``StoreSyncError/Code/isTemporary``.
    /// A policy of one attempt never retries.
    public var retry = RetryPolicy.whileTemporary

    /// The cost of hashing a password that this device sets, for devices with little memory or with much.
    ///
    /// Every device of the application pays it once. If it's `nil`, it's ``/SyncCryptography/PasswordParameters/moderate``,
    /// and a changed password costs what the former one did. A changed password never costs less. Less than
    /// ``/SyncCryptography/PasswordParameters/interactive`` is refused. A ``PasscodeSetup`` uses it for passcodes.
    public var passwordParameters: PasswordParameters? {
        get { request.passwordParameters }
        set { request.passwordParameters = newValue }
    }

    private var request: ApplicationRegistrationRequest
    private let asker: Asker

    /// Holds the delegate weakly.
    struct Asker: Sendable {
        weak let delegate: (any ApplicationSyncDelegate)?

        /// Asks the delegate, and throws if it was released.
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

        /// Tells the delegate something, unless it was released.
        func tell(
            _ event: @MainActor (any ApplicationSyncDelegate) async throws -> Void
        ) async throws {
            if let delegate { try await event(delegate) }
        }
    }

    /// Creates a manager.
    ///
    /// - Parameters:
    ///   - application: The application's identifier.
    ///   - clientDescription: What people call this device.
    ///   - userInfo: Any values to be saved with this client, and returned with lists of clients; at most 1 MiB as a
    ///     property list.
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
    ///   - registersAgain: Whether this device is set up again, as another client, after it was deregistered. A device that is
    ///     still registered stays the client that it is, with a warning.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The registration's handle.
    @discardableResult
    public func register(
        mayCreate: Bool = true,
        registersAgain: Bool = false,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ApplicationRegistration> {
        var options = self.options(ofRegistration: options, after: dependencies)
        // A device that is set up again becomes another client.
        if registersAgain { options.clientIdentifier = nil }
        return supervisor.add(
            registration(mayCreate: mayCreate, registersAgain: registersAgain),
            after: dependencies,
            options: options
        )
    }

    /// Registers as ``register(mayCreate:registersAgain:after:options:)`` does, but creates nothing unless there is a store
    /// that can be uploaded.
    ///
    /// - Parameters:
    ///   - store: The store, which may be the work of an operation that must end first.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The registration's handle.
    public func register(
        uploading store: URL,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ApplicationRegistration> {
        let check = supervisor.add(
            StoreCheckOperation(store),
            after: dependencies,
            options: self.options(ofStepBefore: options)
        )
        return check.then(options: self.options(ofRegistration: options, after: dependencies)) { [self] in
            registration(mayCreate: true)
        }
        .cancelling(check)
    }

    func registration(
        mayCreate: Bool,
        registersAgain: Bool = false,
        missing store: URL? = nil
    ) -> ApplicationRegistrationOperation {
        var request = request
        request.mayCreateApplication = mayCreate
        request.missingStore = store
        request.registersAgain = registersAgain
        return ApplicationRegistrationOperation(request, backend: backend, state: state, delegate: decision)
    }

    var key: ApplicationKey {
        ApplicationKey(backend, application)
    }

    var decision: ApplicationRegistrationOperation.Delegate {
        { [asker, application] question in
            try await asker.ask { try await $0.decideEncryption(question, of: application) }
        }
    }

    /// The manager of one of the application's documents.
    ///
    /// It keeps the ``retry`` and ``passwordParameters`` that this manager has now: set these before.
    ///
    /// - Parameters:
    ///   - document: The document.
    ///   - description: What people call the document, if it's created; the store's file name if this is `nil`.
    ///   - userInfo: Any values to be saved with the document when it's created, and returned with lists of documents; at
    ///     most 1 MiB as a property list.
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
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The handle of the status.
    public func status(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ApplicationStatus> {
        supervisor.add(
            StatusOperation(application, backend: backend, state: state, delegate: decision),
            after: dependencies,
            options: self.options(options)
        )
    }

    /// Reads every file of the application and checks it.
    ///
    /// Doesn't register this device.
    ///
    /// - Parameters:
    ///   - repairs: Whether to finish what this device left unfinished, and to remove what it left behind.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The verification's handle.
    public func verify(
        repairs: Bool = false,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<VerificationReport> {
        supervisor.add(
            VerificationOperation(application, repairs: repairs, backend: backend, state: state, delegate: decision),
            after: dependencies,
            options: self.options(options)
        )
    }

    /// Changes the password of the application, if it's encrypted: writes one file, and re-encrypts nothing.
    ///
    /// - Parameters:
    ///   - password: The new password.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The handle, whose value is how many passwords the application has had.
    public func changePassword(
        to password: Password,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Int> {
        changePassword(after: dependencies, options: options) { _ in password }
    }

    /// Changes the password, as ``changePassword(to:after:options:)`` does, to a password that is asked for after the former one.
    package func changePassword(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        asking password: @escaping PasswordChangeOperation.Question
    ) -> OperationHandle<Int> {
        supervisor.add(
            PasswordChangeOperation(
                asking: password,
                of: application,
                parameters: passwordParameters,
                backend: backend,
                state: state,
                delegate: decision
            ),
            after: dependencies,
            options: self.options(options)
        )
    }

    /// Signs out: deletes the application's keys from this device.
    ///
    /// ```swift
    /// try await manager.forgetKeys().value
    /// ```
    ///
    /// The next operation that needs them asks the delegate for the password. Everything else stays: the registration, local
    /// stores, items of the application's keychain, and the memory that the application is encrypted. If the application
    /// isn't encrypted, nothing changes.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The handle. The operation fails with ``StoreSyncError/Code/busy`` while a registration is in progress.
    @discardableResult
    public func forgetKeys(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Void> {
        supervisor.add(
            KeyRemovalOperation(key, state: state),
            after: dependencies,
            options: self.options(options)
        )
    }

    /// Sets this device up with a passcode, instead of asking the delegate about encryption.
    ///
    /// - Returns: A new setup for every call, which adds its operations to ``supervisor``.
    public func passcodeSetup() -> PasscodeSetup {
        PasscodeSetup(request, backend: backend, state: state, supervisor: supervisor)
    }

    func register(
        _ request: @autoclosure @escaping @Sendable () -> DocumentRegistrationRequest,
        registeredBy registration: OperationHandle<ApplicationRegistration>,
        options: OperationOptions
    ) -> OperationHandle<DocumentRegistration> {
        registration.then(options: options) { [backend, state, asker, application] registered in
            let request = request()
            return DocumentRegistrationOperation(request, application: registered, backend: backend, state: state) {
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

    /// Tells the delegate when a download replaces a store of a document.
    func replacement(of document: RemoteIdentifier) -> WholeStoreDownloadOperation.Delegate {
        { [asker] event in
            try await asker.tell { delegate in
                switch event {
                case .willReplace(let url):
                    try await delegate.willReplaceStore(at: url, of: document)
                case .didReplace(let url, let isReplaced):
                    await delegate.didReplaceStore(at: url, of: document, isReplaced: isReplaced)
                }
            }
        }
    }
}
