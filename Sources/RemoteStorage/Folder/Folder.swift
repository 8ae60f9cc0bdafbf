import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Foundation
#endif

/// A folder of the file system whose insides have ``RemotePath``s.
struct Folder: Sendable {
    /// Where it is.
    let path: String

    /// Whether the file system is this device's own, as far as that is known: not a network's, nor a program's.
    var isOnThisDevice: Bool {
        #if canImport(Darwin)
        var status = statfs()
        return statfs(path, &status) == 0 && status.f_flags & UInt32(MNT_LOCAL) != 0
        #else
        guard let mounts = try? String(contentsOfFile: "/proc/self/mounts", encoding: .utf8),
            let type = Self.fileSystem(of: path, in: mounts)
        else { return false }
        return !Self.remoteFileSystems.contains(type) && !type.hasPrefix("fuse")
        #endif
    }

    private static let remoteFileSystems: Set = [
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "coda", "davfs",
    ]

    /// The type of the file system that a path is on, as `/proc/self/mounts` names it; `nil` if none is around it.
    static func fileSystem(of path: String, in mounts: String) -> String? {
        // The innermost counts, and of several at one place the last.
        var innermost: (point: String, type: String)?
        for line in mounts.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count > 2 else { continue }
            let point = fields[1].replacing("\\040", with: " ")
            let isAround = path == point || path.hasPrefix(point.hasSuffix("/") ? point : point + "/")
            if isAround, point.count >= innermost?.point.count ?? 0 { innermost = (String(point), String(fields[2])) }
        }
        return innermost?.type
    }

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
