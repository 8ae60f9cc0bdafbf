public import Foundation
public import Operations
public import RemoteStorage

/// Synchronizes one document: creates its operations, in pipelines that register first.
///
/// What the methods do with options and dependencies is said at ``ApplicationSyncManager``.
public struct DocumentSyncManager: Sendable {
    /// The document.
    public let document: RemoteIdentifier
    /// What people call the document, if it's created; the store's file name if this is `nil`.
    public let description: String?
    /// The values that are saved with the document when it's created, and that lists of documents return.
    public let userInfo: [String: PropertyListValue]
    let manager: ApplicationSyncManager

    init(
        _ document: RemoteIdentifier,
        description: String?,
        userInfo: [String: PropertyListValue],
        of manager: ApplicationSyncManager
    ) {
        self.document = document
        self.description = description
        self.userInfo = userInfo
        self.manager = manager
    }

    /// What the manager is busy with: the operations of its document that haven't ended, the oldest first.
    ///
    /// Registrations of the application aren't among them: see ``ApplicationSyncManager/activity``.
    public var activity: [any OperationReference] { manager.activity(of: document) }

    /// Registers the document and this device as its client, and before that the application.
    ///
    /// - Parameters:
    ///   - description: What people call the document, if it's created; by default ``description``, or else its identifier.
    ///   - mayCreate: Whether the application and the document are created if they don't exist.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The document registration's handle.
    @discardableResult
    public func register(
        description: String? = nil,
        mayCreate: Bool = true,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<DocumentRegistration> {
        let application = manager.register(
            mayCreate: mayCreate,
            after: dependencies,
            options: manager.options(ofStepBefore: options)
        )
        return register(
            description: description ?? self.description,
            mayCreate: mayCreate,
            registeredBy: application,
            options: manager.options(options, of: document)
        )
        .cancelling(application)
    }

    private func register(
        description: String?,
        mayCreate: Bool,
        registeredBy application: OperationHandle<ApplicationRegistration>,
        options: OperationOptions
    ) -> OperationHandle<DocumentRegistration> {
        let request = DocumentRegistrationRequest(
            document: document,
            description: description ?? document.rawValue,
            userInfo: userInfo,
            mayCreateDocument: mayCreate
        )
        return manager.register(request, registeredBy: application, options: options)
    }

    /// Lists the document's clients, without registering this device.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The list's handle.
    public func listClients(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ClientList> {
        manager.listClients(of: document, after: dependencies, options: options)
    }

    /// Removes a client from the document, as ``ApplicationSyncManager/removeClient(_:from:after:options:)`` does.
    ///
    /// - Parameters:
    ///   - client: The client, which must not be this device's.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The removal's handle.
    public func removeClient(
        _ client: RemoteIdentifier,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<ClientRemoval> {
        manager.removeClient(client, from: document, after: dependencies, options: options)
    }

    /// Removes the document for all devices, as ``ApplicationSyncManager/removeDocument(_:after:options:)`` does: ask the
    /// user first.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The removal's handle.
    public func remove(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<DocumentRemoval> {
        manager.removeDocument(document, after: dependencies, options: options)
    }

    /// Uploads a store, which may be open, as the document's next generation.
    ///
    /// Creates the application and the document if needed, but nothing unless there is a store that can be read.
    ///
    /// ```swift
    /// let export = manager.supervisor.add(Export(notes, to: file))
    /// let upload = manager.document(diary).upload(storeAt: file, after: [export], options: OperationOptions(priority: .high))
    /// ```
    ///
    /// - Parameters:
    ///   - url: The store, which may be the work of an operation that must end first.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The upload's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func upload(
        storeAt url: URL,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<WholeStoreUpload> {
        upload(WholeStoreUploadRequest(url: url), after: dependencies, options: options)
    }

    /// Uploads a store as ``upload(storeAt:after:options:)`` does, as a request says.
    ///
    /// - Parameters:
    ///   - request: The store, and which uploads it replaces.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The upload's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func upload(
        _ request: WholeStoreUploadRequest,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<WholeStoreUpload> {
        let registration = manager.register(
            uploading: request.url,
            after: dependencies,
            options: manager.options(ofStepBefore: options)
        )
        return upload(request, registeredBy: registration, options: options).cancelling(registration)
    }

    /// Uploads a store once a registration of the application has completed.
    ///
    /// - Parameters:
    ///   - request: The store, and which uploads it replaces.
    ///   - registration: A registration that this document's ``ApplicationSyncManager`` returned.
    ///   - options: Priority, retry, keys and the rest.
    /// - Returns: The upload's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func upload(
        _ request: WholeStoreUploadRequest,
        registeredBy registration: OperationHandle<ApplicationRegistration>,
        options: OperationOptions? = nil
    ) -> OperationHandle<WholeStoreUpload> {
        let (backend, state) = (manager.backend, manager.state)
        let document = register(
            description: description ?? request.url.lastPathComponent,
            mayCreate: true,
            registeredBy: registration,
            options: manager.options(ofStepBefore: options, of: self.document)
        )
        return document.then(options: self.options(options, using: request.url, isPush: true)) { registered in
            WholeStoreUploadOperation(request, document: registered, backend: backend, state: state)
        }
        .cancelling(document)
    }

    /// Downloads a store and replaces the local store with it.
    ///
    /// Creates neither the application nor the document.
    ///
    /// The delegate is told before and after the replacement, so that the app can close the store:
    /// ``ApplicationSyncDelegate/willReplaceStore(at:of:)``.
    ///
    /// - Parameters:
    ///   - request: The local store, and which upload is downloaded.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The download's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func download(
        _ request: WholeStoreDownloadRequest,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<WholeStoreDownload> {
        let registration = manager.register(
            mayCreate: false,
            after: dependencies,
            options: manager.options(ofStepBefore: options)
        )
        return download(request, registeredBy: registration, options: options).cancelling(registration)
    }

    /// Downloads a store once a registration of the application has completed.
    ///
    /// - Parameters:
    ///   - request: The local store, and which upload is downloaded.
    ///   - registration: A registration that this document's ``ApplicationSyncManager`` returned.
    ///   - options: Priority, retry, keys and the rest.
    /// - Returns: The download's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func download(
        _ request: WholeStoreDownloadRequest,
        registeredBy registration: OperationHandle<ApplicationRegistration>,
        options: OperationOptions? = nil
    ) -> OperationHandle<WholeStoreDownload> {
        let (backend, state, delegate) = (manager.backend, manager.state, manager.replacement(of: document))
        let document = register(
            description: nil,
            mayCreate: false,
            registeredBy: registration,
            options: manager.options(ofStepBefore: options, of: self.document)
        )
        return document.then(options: self.options(options, using: request.url, isPush: false)) { registered in
            WholeStoreDownloadOperation(
                request,
                document: registered,
                backend: backend,
                state: state,
                delegate: delegate
            )
        }
        .cancelling(document)
    }

    /// Synchronizes a store record by record: merges what this and other devices have edited at once.
    ///
    /// Creates the application and the document if needed, but nothing unless there is a database that can be read and
    /// written. A missing store is downloaded.
    ///
    /// - Parameters:
    ///   - request: The store.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The synchronization's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func synchronize(
        _ request: SynchronizationRequest,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Synchronization> {
        let (backend, state) = (manager.backend, manager.state)
        let registration = register(synchronizing: request, after: dependencies, options: options)
        return registration.then(options: self.options(options, using: request.url, isPush: true)) { registered in
            SynchronizationOperation(request, document: registered, backend: backend, state: state)
        }
        .cancelling(registration)
    }

    /// Registers as ``register(description:mayCreate:after:options:)`` does, but creates nothing for a store that is missing or
    /// can't be read and written.
    private func register(
        synchronizing request: SynchronizationRequest,
        after dependencies: [any OperationReference],
        options: OperationOptions?
    ) -> OperationHandle<DocumentRegistration> {
        let (manager, url, mayCreate) = (manager, request.url, !request.isPreview)
        let check = manager.supervisor.add(
            DatabaseCheckOperation(request, of: manager.documentKey(document), state: manager.state),
            after: dependencies,
            options: manager.options(ofStepBefore: options, of: document)
        )
        // Asked when it's needed: an operation that must end first may create the store.
        let missing: @Sendable () -> URL? = { FileManager.default.fileExists(atPath: url.path) ? nil : url }
        let step = manager.options(ofStepBefore: options)
        let application = check.then(options: manager.options(ofRegistration: step, after: dependencies)) {
            manager.registration(mayCreate: mayCreate && missing() == nil, missing: missing())
        }
        .cancelling(check)
        let registration = DocumentRegistrationRequest(
            document: document,
            description: description ?? url.lastPathComponent,
            userInfo: userInfo,
            mayCreateDocument: mayCreate
        )
        return manager.register(
            registration.withoutCreating(for: missing()),
            registeredBy: application,
            options: manager.options(ofStepBefore: options, of: document)
        )
        .cancelling(application)
    }

    /// Shortens the log of a document whose devices merge records.
    ///
    /// This device must have synchronized the document.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest; see ``ApplicationSyncManager/retry``.
    /// - Returns: The operation's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func vacuum(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Vacuum> {
        let (backend, state) = (manager.backend, manager.state)
        let registration = register(
            mayCreate: false,
            after: dependencies,
            options: manager.options(ofStepBefore: options, of: document)
        )
        let options = manager.options(options, of: document, locking: [.document(manager.documentKey(document))])
        return registration.then(options: options) { registered in
            VacuumOperation(of: registered, backend: backend, state: state)
        }
        .cancelling(registration)
    }

    /// Refuses a preview on a device that hasn't synchronized the document yet: it would have to register first.
    ///
    /// - Throws: ``StoreSyncError``.
    package func refuseEarlyPreview() throws {
        guard try manager.state.hasSynchronized(manager.documentKey(document)) else {
            throw StoreSyncError.nothingToPreview(document)
        }
    }

    /// What merging overwrote or left out in a store of the document.
    ///
    /// - Parameter url: The store.
    /// - Returns: The log, which is read when its methods are called.
    public func conflicts(ofStoreAt url: URL) -> ConflictLog {
        ConflictLog(ofStoreAt: url, state: manager.state, .of(manager.documentKey(document)))
    }

    /// The options of a push or a pull, whose keys are those of what it locks.
    private func options(_ given: OperationOptions?, using store: URL, isPush: Bool) -> OperationOptions {
        let store = FileLock.Subject.store(LocalPath(store.standardizedFileURL.path))
        return manager.options(
            given,
            of: document,
            locking: isPush ? [.document(manager.documentKey(document)), store] : [store]
        )
    }
}
