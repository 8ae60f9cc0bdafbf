import SystemPackage

/// A folder of the file system whose insides have ``RemotePath``s.
struct Folder: Sendable {
    /// Where it is.
    let path: String

    /// Opens the folder itself.
    func open() throws -> Directory {
        do throws(Errno) {
            return try Directory(path: path)
        } catch let error where error == .noSuchFileOrDirectory {
            throw RemoteError(
                .unavailable,
                "There is no folder at “\(path)”. Mount the share that it is on, or create the folder.",
                path: .root,
                cause: error
            )
        } catch let error where error == .notDirectory {
            throw RemoteError(.wrongKind, "“\(path)” is no folder. Name a folder.", path: .root, cause: error)
        } catch {
            throw RemoteError(error, at: .root)
        }
    }

    /// Opens the directory that a path is in; `nil` if that isn't there or is a file.
    func parent(of path: RemotePath) throws -> Directory? {
        var directory = try open()
        for name in path.components.dropLast() {
            guard let next = try directory.directoryIfPresent(name) else { return nil }
            directory = next
        }
        return directory
    }

    /// Opens a directory, and makes it and those above it where they aren't there.
    func makeDirectory(at path: RemotePath) throws -> Directory {
        try path.components.reduce(open()) { try $0.madeDirectory($1) }
    }

    /// What is at a path; `nil` if nothing is.
    func item(at path: RemotePath) throws -> RemoteItem? {
        guard let name = path.lastComponent else { return RemoteItem(name: "", try open().status()) }
        return try parent(of: path)?.status(name).map { RemoteItem(name: name, $0) }
    }

    /// What is in a directory, by name; `nil` if it isn't there.
    func items(in path: RemotePath) throws -> [RemoteItem]? {
        guard let directory = try directory(at: path) else { return nil }
        return try directory.names().compactMap { bytes in
            guard
                let name = String(validating: bytes.dropLast(), as: UTF8.self),
                !PendingFile.owns(name),
                let status = try directory.status(bytes)
            else { return nil }
            return RemoteItem(name: name, status)
        }
        .sorted { $0.name < $1.name }
    }

    private func directory(at path: RemotePath) throws -> Directory? {
        guard let name = path.lastComponent else { return try open() }
        do {
            return try parent(of: path)?.directory(name)
        } catch let error as Errno where error == .noSuchFileOrDirectory {
            return nil
        }
    }
}
