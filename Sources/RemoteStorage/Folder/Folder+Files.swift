import FileSupport
import SystemPackage

extension Folder {
    /// Opens a file and returns it with its size; `nil` if it doesn't exist.
    func openToRead(_ path: RemotePath) throws -> (file: OpenFile, size: Int64)? {
        guard let name = path.lastComponent else { throw RemoteError.notAFile(path) }
        guard let parent = try parent(of: path) else { return nil }
        do throws(Errno) {
            let file = try parent.openToRead(name)
            let status = try file.status()
            switch status.type {
            case .regular: return (file, status.size)
            case .directory: throw .isDirectory
            default: throw .tooManySymbolicLinkLevels
            }
        } catch let error where error == .noSuchFileOrDirectory {
            try refusePlaceholder(of: name, in: parent, at: path)
            return nil
        }
    }

    /// Copies a file by giving it a second name.
    ///
    /// - Returns: Whether the file system could link the file.
    func link(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) throws -> Bool {
        guard let parent = destination.parent, let name = destination.lastComponent else {
            throw RemoteError.rootIsFixed()
        }
        let (sourceParent, sourceName) = try locate(source, kinds: [.file])
        try condition.check(item(at: destination), at: destination)
        let pending = PendingFile(in: try makeDirectory(at: parent))
        do throws(Errno) {
            try pending.link(from: sourceParent, sourceName)
        } catch let error where error.isNoHardLink {
            return false
        }
        defer { pending.discard() }
        _ = try pending.commit(as: name, at: destination, when: condition, isShared: true)
        return true
    }

    /// Gives a file or a directory another name, which mustn't exist.
    func move(_ source: RemotePath, to destination: RemotePath) throws {
        guard let parent = destination.parent, let name = destination.lastComponent else {
            throw RemoteError.rootIsFixed()
        }
        let (sourceParent, sourceName) = try locate(source, kinds: [.file, .directory])
        try source.refuseMoveIntoItself(to: destination)
        let newParent = try makeDirectory(at: parent)
        do throws(Errno) {
            try sourceParent.move(sourceName, to: newParent, name)
        } catch {
            guard [.fileExists, .directoryNotEmpty].contains(error) else { throw error }
            throw RemoteError.alreadyExists(destination, cause: error)
        }
    }

    private func locate(_ path: RemotePath, kinds: [RemoteItem.Kind]) throws -> (parent: Directory, name: String) {
        guard let name = path.lastComponent else { throw RemoteError.rootIsFixed() }
        guard let parent = try parent(of: path), let status = try parent.status(name) else {
            throw RemoteError.notFound(path)
        }
        let kind = RemoteItem(name: name, status).kind
        guard kind != .other else { throw RemoteError.specialFile(path) }
        guard kinds.contains(kind) else { throw RemoteError.notAFile(path) }
        return (parent, name)
    }
}
