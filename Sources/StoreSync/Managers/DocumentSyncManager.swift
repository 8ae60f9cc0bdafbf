public import Foundation
public import Operations
public import RemoteStorage

/// Synchronizes one document: creates its operations, in pipelines that register first.
public struct DocumentSyncManager: Sendable {
    /// The document.
    public let document: RemoteIdentifier
    private let manager: ApplicationSyncManager

    init(_ document: RemoteIdentifier, of manager: ApplicationSyncManager) {
        self.document = document
        self.manager = manager
    }

    /// Registers the document and this device as its client, and before that the application.
    ///
    /// - Parameters:
    ///   - description: What people call the document, if it's created.
    ///   - mayCreate: Whether the application and the document are created if they don't exist.
    /// - Returns: The document registration's handle.
    @discardableResult
    public func register(
        description: String? = nil,
        mayCreate: Bool = true
    ) -> OperationHandle<DocumentRegistration> {
        register(description: description, mayCreate: mayCreate, after: manager.register(mayCreate: mayCreate))
    }

    private func register(
        description: String?,
        mayCreate: Bool,
        after application: OperationHandle<ApplicationRegistration>
    ) -> OperationHandle<DocumentRegistration> {
        let request = DocumentRegistrationRequest(
            document: document,
            description: description ?? document.rawValue,
            mayCreateDocument: mayCreate
        )
        return manager.register(request, after: application)
    }

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
        let document = register(description: request.url.lastPathComponent, mayCreate: true, after: registration)
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
}
