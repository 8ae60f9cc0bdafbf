import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A folder of the file system whose insides have ``RemotePath``s.
struct Folder: Sendable {
    /// Where it is.
    let path: String

    /// Whether the file system is this device's own, as far as that is known: not a network's, nor a program's.
    var isOnThisDevice: Bool {
        var status = statfs()
        guard statfs(path, &status) == 0 else { return false }
        #if canImport(Darwin)
        return status.f_flags & UInt32(MNT_LOCAL) != 0
        #else
        return !Self.remoteFileSystems.contains(UInt32(truncatingIfNeeded: status.f_type))
        #endif
    }

    #if !canImport(Darwin)
    /// NFS, SMB, CIFS, SMB 2, FUSE, 9P, AFS, Ceph, Coda, by the numbers that statfs(2) names.
    private static let remoteFileSystems: Set<UInt32> = [
        0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x0102_1997, 0x5346_414F, 0x00C3_6400, 0x7375_7245,
    ]
    #endif

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
