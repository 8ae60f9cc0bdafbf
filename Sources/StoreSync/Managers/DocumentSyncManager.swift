public import Foundation
public import Operations
public import RemoteStorage

/// Synchronizes one document: creates its operations, in pipelines that register first.
public struct DocumentSyncManager: Sendable {
    /// The document.
    public let document: RemoteIdentifier
    /// What people call the document, if it's created; the store's file name if this is `nil`.
    public let description: String?
    /// The values that are saved with the document when it's created, and that lists of documents return.
    public let userInfo: [String: PropertyListValue]
    private let manager: ApplicationSyncManager

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

    /// Registers the document and this device as its client, and before that the application.
    ///
    /// - Parameters:
    ///   - description: What people call the document, if it's created; by default ``description``.
    ///   - mayCreate: Whether the application and the document are created if they don't exist.
    /// - Returns: The document registration's handle.
    @discardableResult
    public func register(
        description: String? = nil,
        mayCreate: Bool = true
    ) -> OperationHandle<DocumentRegistration> {
        register(
            description: description ?? self.description,
            mayCreate: mayCreate,
            after: manager.register(mayCreate: mayCreate)
        )
    }

    private func register(
        description: String?,
        mayCreate: Bool,
        after application: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<DocumentRegistration> {
        let request = DocumentRegistrationRequest(
            document: document,
            description: description ?? document.rawValue,
            userInfo: userInfo,
            mayCreateDocument: mayCreate
        )
        return manager.register(request, after: application)
    }

    /// Lists the document's clients, without registering this device.
    ///
    /// - Returns: The list's handle.
    public func listClients() -> OperationHandle<ClientList> { manager.listClients(of: document) }

    /// Removes a client from the document, as ``ApplicationSyncManager/removeClient(_:from:)`` does.
    ///
    /// - Parameter client: The client, which must not be this device's.
    /// - Returns: The removal's handle.
    public func removeClient(_ client: RemoteIdentifier) -> OperationHandle<ClientRemoval> {
        manager.removeClient(client, from: document)
    }

    /// Removes the document for all devices, as ``ApplicationSyncManager/removeDocument(_:)`` does: ask the user first.
    ///
    /// - Returns: The removal's handle.
    public func remove() -> OperationHandle<DocumentRemoval> { manager.removeDocument(document) }

    /// Uploads a store, which may be open, as the document's next generation.
    ///
    /// Creates the application and the document if needed, but nothing unless there is a store that can be read.
    ///
    /// - Parameter url: The store.
    /// - Returns: The upload's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func upload(storeAt url: URL) -> OperationHandle<WholeStoreUpload> {
        upload(WholeStoreUploadRequest(url: url))
    }

    /// Uploads a store as ``upload(storeAt:)`` does, with the options of a request.
    ///
    /// - Parameter request: The store, and which uploads it replaces.
    /// - Returns: The upload's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func upload(_ request: WholeStoreUploadRequest) -> OperationHandle<WholeStoreUpload> {
        upload(request, after: manager.register(uploading: request.url))
    }

    /// Uploads a store once a registration of the application has completed.
    ///
    /// - Parameters:
    ///   - request: The store, and which uploads it replaces.
    ///   - registration: A registration of this document's manager.
    /// - Returns: The upload's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func upload(
        _ request: WholeStoreUploadRequest,
        after registration: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<WholeStoreUpload> {
        let (backend, state) = (manager.backend, manager.state)
        let document = register(
            description: description ?? request.url.lastPathComponent,
            mayCreate: true,
            after: registration
        )
        return document.then(options: manager.options) { registered in
            WholeStoreUploadOperation(request, document: registered, backend: backend, state: state)
        }
    }

    /// Downloads a store and replaces the local store with it.
    ///
    /// Creates neither the application nor the document.
    ///
    /// - Parameter request: The local store, and which upload is downloaded.
    /// - Returns: The download's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func download(_ request: WholeStoreDownloadRequest) -> OperationHandle<WholeStoreDownload> {
        download(request, after: manager.register(mayCreate: false))
    }

    /// Downloads a store once a registration of the application has completed.
    ///
    /// - Parameters:
    ///   - request: The local store, and which upload is downloaded.
    ///   - registration: A registration of this document's manager.
    /// - Returns: The download's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func download(
        _ request: WholeStoreDownloadRequest,
        after registration: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<WholeStoreDownload> {
        let (backend, state) = (manager.backend, manager.state)
        let document = register(description: nil, mayCreate: false, after: registration)
        return document.then(options: manager.options) { registered in
            WholeStoreDownloadOperation(request, document: registered, backend: backend, state: state)
        }
    }

    /// Synchronizes a store record by record: merges what this and other devices have edited at once.
    ///
    /// Creates the application, the document and the store if needed. All devices need the same schema.
    ///
    /// - Parameter request: The store.
    /// - Returns: The synchronization's handle, which fails with the error of the operation that failed.
    @discardableResult
    public func synchronize(_ request: SynchronizationRequest) -> OperationHandle<Synchronization> {
        let (backend, state) = (manager.backend, manager.state)
        let document = register(
            description: description ?? request.url.lastPathComponent,
            mayCreate: true,
            after: manager.register(mayCreate: true)
        )
        return document.then(options: manager.options) { registered in
            SynchronizationOperation(request, document: registered, backend: backend, state: state)
        }
    }
}
