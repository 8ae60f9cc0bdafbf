public import RemoteStorage

/// The remote steps that uploads and downloads share: reading what was published.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol WholeStoreHooks: SyncHooks {
    /// The clients that have uploaded a store of the document, or begun to.
    func listUploadingClients(_ hierarchy: DocumentHierarchy) async throws -> [RemoteIdentifier]

    /// The items in a client's directory of uploads.
    func listUploads(of client: RemoteIdentifier, _ hierarchy: DocumentHierarchy) async throws -> [RemoteItem]

    /// The files in the folder of an upload, with their sizes; `nil` if the folder doesn't exist.
    func listFiles(in directory: RemotePath) async throws -> [RemoteItem]?

    /// Reads a manifest; `nil` if it doesn't exist (any more).
    func fetchManifest(at path: RemotePath) async throws -> [UInt8]?
}

extension WholeStoreHooks {
    /// Lists the directory of whole stores.
    public func listUploadingClients(_ hierarchy: DocumentHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(hierarchy.wholeStores).directoryIdentifiers
    }

    /// Lists the client's directory.
    public func listUploads(
        of client: RemoteIdentifier,
        _ hierarchy: DocumentHierarchy
    ) async throws -> [RemoteItem] {
        try await backend.list(hierarchy.wholeStores(client)) ?? []
    }

    /// Lists the folder.
    public func listFiles(in directory: RemotePath) async throws -> [RemoteItem]? {
        try await backend.list(directory)
    }

    /// Reads the file.
    public func fetchManifest(at path: RemotePath) async throws -> [UInt8]? {
        try await backend.smallFile(at: path)
    }
}

/// The remote steps of ``WholeStoreUploadOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol WholeStoreUploadHooks: WholeStoreHooks {
    /// Uploads one file of a whole store into its upload's folder.
    ///
    /// - Returns: The file that was written.
    func uploadFile(_ content: RemoteContent, to path: RemotePath) async throws -> RemoteItem

    /// Uploads one file of a whole store as ``uploadFile(_:to:)`` does, unless it exists, and resumes an interrupted
    /// upload.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - receipts: Where the backend notes what it needs to resume the upload.
    ///   - rest: Receives how many bytes the remote has kept, and returns the content after all or some of them. It must be
    ///     called, with 0 if the remote has kept nothing: otherwise nothing is published, and the push fails.
    /// - Returns: The file that was written.
    /// - Throws: `RemoteError` with `alreadyExists` if the file exists; what `rest` and the backend throw.
    func resumeUpload(
        to path: RemotePath,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem

    /// Publishes an upload by its manifest, unless a manifest of that name exists.
    ///
    /// - Returns: Whether the remote now holds this manifest.
    func publishManifest(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool

    /// Refreshes one of the fixed names by which TICoreDataSync knows a client's store.
    func refreshFixedName(from published: RemotePath, to fixed: RemotePath) async throws

    /// Removes one of the fixed names of a removed client.
    func removeFixedName(_ fixed: RemotePath) async throws

    /// Removes an upload of this client: its manifest first, so that no client sees a manifest without its files.
    func removeUpload(manifest: RemotePath, directory: RemotePath) async throws
}

extension WholeStoreUploadHooks {
    /// Writes the file.
    public func uploadFile(_ content: RemoteContent, to path: RemotePath) async throws -> RemoteItem {
        try await backend.write(content, to: path, when: .always)
    }

    /// Resumes or starts the upload, unless the file exists.
    public func resumeUpload(
        to path: RemotePath,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts, rest)
    }

    /// Creates the manifest, or checks the existing one.
    ///
    /// An existing manifest is read back: an earlier attempt of this client may have written it.
    ///
    /// If the backend can't resume uploads, every push has a unique name, so no other manifest can have it.
    public func publishManifest(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool {
        let capabilities = try await backend.capabilities()
        if capabilities.contains(.atomicReplace), !capabilities.contains(.resumableWrite) {
            return try await put(bytes, at: path)
        }
        if try await backend.writeIfAbsent(bytes, to: path) { return true }
        return try await fetchManifest(at: path) == bytes
    }

    /// Writes a manifest that no other client writes, and removes it again if it arrives incomplete.
    private func put(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool {
        do {
            try await backend.write(bytes, to: path, when: .always)
            return true
        } catch let error as RemoteError {
            guard let arrived = try? await fetchManifest(at: path) else { throw error }
            if arrived == bytes { return true }
            try? await backend.remove(path)
            throw error
        }
    }

    /// Copies the file on the remote.
    public func refreshFixedName(from published: RemotePath, to fixed: RemotePath) async throws {
        try await backend.copy(published, to: fixed, when: .always)
    }

    /// Removes the file.
    public func removeFixedName(_ fixed: RemotePath) async throws {
        try await backend.remove(fixed)
    }

    /// Removes both.
    public func removeUpload(manifest: RemotePath, directory: RemotePath) async throws {
        try await backend.remove(manifest)
        try await backend.remove(directory)
    }
}

/// The remote steps of ``WholeStoreDownloadOperation``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol WholeStoreDownloadHooks: WholeStoreHooks {
    /// Opens one file of a whole store, or a range of its bytes; `nil` if the file doesn't exist.
    func downloadFile(at path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent?
}

extension WholeStoreDownloadHooks {
    /// Opens the file.
    public func downloadFile(at path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await backend.read(path, range: range)
    }
}
