import FileSupport
import Foundation
import SystemPackage

/// A folder of the file system, in which items are named by ``RemotePath``s.
struct Folder: Sendable {
    /// The folder's path in the file system.
    let path: String

    /// Whether the file system is known to be local: neither a network's nor a program's (FUSE).
    var isOnThisDevice: Bool {
        #if canImport(Darwin)
        let values = try? URL(filePath: path).resourceValues(forKeys: [.volumeIsLocalKey])
        return values?.volumeIsLocal ?? false
        #else
        let mounts = try? String(contentsOfFile: "/proc/self/mounts", encoding: .utf8)
        return mounts.map { Self.isLocal(path, in: $0) } ?? false
        #endif
    }

    /// The file systems of Linux that only this device changes.
    ///
    /// Any other may belong to a network, a cluster, a virtual machine's host or a program. It reports no changes that are
    /// made elsewhere.
    private static let localFileSystems: Set = [
        "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "hfsplus", "jffs2", "jfs", "msdos",
        "nilfs2", "ntfs", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs", "tmpfs", "ubifs", "udf", "vfat", "xfs",
        "zfs",
    ]

    /// Whether `/proc/self/mounts` says that a path is on a local file system.
    static func isLocal(_ path: String, in mounts: String) -> Bool {
        fileSystem(of: path, in: mounts).map(localFileSystems.contains) ?? false
    }

    /// The type of the file system that holds a path, as `/proc/self/mounts` names it; `nil` if no entry contains the path.
    static func fileSystem(of path: String, in mounts: String) -> String? {
        // The innermost mount point counts. Of several mounts at one point, the last counts.
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
                "The folder “\(path)” doesn't exist. Mount the share that contains it, or create the folder.",
                path: .root,
                cause: error
            )
        } catch let error where error == .notDirectory {
            throw RemoteError(.wrongKind, "“\(path)” isn't a folder. Name a folder.", path: .root, cause: error)
        } catch let error where error == .tooManySymbolicLinkLevels {
            throw RemoteError(
                .notAllowed,
                "“\(path)” leads into a loop of symbolic links. Name the folder itself.",
                path: .root,
                cause: error
            )
        } catch {
            throw RemoteError(error, at: .root, in: path)
        }
    }

    /// Opens the parent directory of a path; `nil` if it doesn't exist or is a file.
    func parent(of path: RemotePath) throws -> Directory? {
        var directory = try open()
        for name in path.components.dropLast() {
            guard let next = try directory.directoryIfPresent(name) else { return nil }
            directory = next
        }
        return directory
    }

    /// Opens a directory, and creates it and its parents where they are missing.
    func makeDirectory(at path: RemotePath) throws -> Directory {
        try path.components.reduce(open()) { try $0.madeDirectory($1) }
    }

    /// Returns the item at a path; `nil` if there is none.
    func item(at path: RemotePath) throws -> RemoteItem? {
        guard let name = path.lastComponent else { return RemoteItem(name: "", try open().status()) }
        guard let parent = try parent(of: path) else { return nil }
        if let status = try parent.status(name) { return RemoteItem(name: name, status) }
        try refusePlaceholder(of: name, in: parent, at: path)
        return nil
    }

    /// Returns the items in a directory, sorted by name; `nil` if the directory doesn't exist.
    func items(in path: RemotePath) throws -> [RemoteItem]? {
        guard let directory = try directory(at: path) else { return nil }
        let items = try directory.names().compactMap { bytes -> RemoteItem? in
            guard
                let name = String(validating: bytes.dropLast(), as: UTF8.self),
                !TemporaryName.isOne(name),
                let status = try directory.status(bytes)
            else { return nil }
            return RemoteItem(name: name, status)
        }
        try refusePlaceholders(among: items.map(\.name), at: path)
        return items.sorted { $0.name < $1.name }
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
