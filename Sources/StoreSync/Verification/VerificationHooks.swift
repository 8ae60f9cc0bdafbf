public import RemoteStorage

/// The remote steps of ``VerificationOperation``, which reads every file of an application.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol VerificationHooks: SyncHooks {
    /// The items in a directory; `nil` if it doesn't exist.
    func listItems(in directory: RemotePath) async throws -> [RemoteItem]?

    /// The size and kind of an item; `nil` if it doesn't exist.
    func fetchItem(at path: RemotePath) async throws -> RemoteItem?

    /// Reads a small file; `nil` if it doesn't exist.
    func fetchFile(at path: RemotePath) async throws -> [UInt8]?

    /// Opens a file, or a range of its bytes; `nil` if it doesn't exist.
    func openFile(at path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent?

    /// Removes what an interrupted operation of this device has left.
    func removeLeftover(at path: RemotePath) async throws
}

extension VerificationHooks {
    /// Lists the directory.
    public func listItems(in directory: RemotePath) async throws -> [RemoteItem]? {
        try await backend.list(directory)
    }

    /// Asks for the item's status.
    public func fetchItem(at path: RemotePath) async throws -> RemoteItem? {
        try await backend.status(of: path)
    }

    /// Reads the file, which another device may replace meanwhile.
    public func fetchFile(at path: RemotePath) async throws -> [UInt8]? {
        try await backend.smallFile(at: path, isReplaced: true)
    }

    /// Opens the file.
    public func openFile(at path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await backend.read(path, range: range)
    }

    /// Removes the file, or the directory with all that is in it.
    public func removeLeftover(at path: RemotePath) async throws {
        try await backend.remove(path)
    }
}

extension VerificationHooks {
    /// Opens a file; `nil` if it doesn't exist.
    func openFile(at path: RemotePath) async throws -> RemoteContent? { try await openFile(at: path, range: nil) }
}
