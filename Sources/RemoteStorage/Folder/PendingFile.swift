import Foundation
import SystemPackage

#if canImport(Darwin)
import Darwin
#endif

/// A file under a temporary name, until it is whole and gets its own.
///
/// Until ``commit(as:at:when:)`` nobody sees it; whoever makes one commits or discards it.
struct PendingFile: Sendable {
    private static let prefix = ".storesync-"
    private static let suffix = ".tmp"

    /// Whether a name is that of a pending file, which a crash may have left.
    static func owns(_ name: String) -> Bool {
        name.hasPrefix(prefix) && name.hasSuffix(suffix)
    }

    private let directory: Directory
    private let temporaryName: String

    /// Chooses a name for a file that is to be in `directory`.
    init(in directory: Directory) {
        self.init(in: directory, UUID().uuidString.lowercased())
    }

    private init(in directory: Directory, _ name: String) {
        self.directory = directory
        temporaryName = Self.prefix + name + Self.suffix
    }

    /// Makes the file a second name of another one.
    func link(from source: Directory, _ name: String) throws(Errno) {
        try source.link(name, to: directory, temporaryName)
    }

    /// Gives the file its own name, in one step and for good.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - path: The same name, for errors.
    ///   - condition: What must be so.
    ///   - isShared: Whether others may be giving the same file that name: it's a further name of another one.
    /// - Returns: The file.
    /// - Throws: The error of the condition; `Errno`.
    func commit(
        as name: String,
        at path: RemotePath,
        when condition: WriteCondition,
        isShared: Bool = false
    ) throws -> RemoteItem {
        guard let status = try directory.status(temporaryName) else { throw Errno.noSuchFileOrDirectory }
        if condition == .ifAbsent {
            try giveNameExclusively(name, inode: isShared ? nil : status.inode)
        } else {
            let existing = try directory.status(name).map { RemoteItem(name: name, $0) }
            try condition.check(existing, at: path)
            try directory.rename(temporaryName, to: directory, name)
        }
        // After a link, and after a rename of one name of a file to another one of the same file, it still has this name.
        discard()
        try directory.synchronize()
        return RemoteItem(name: name, status)
    }

    /// Removes the file where it wasn't committed.
    func discard() {
        // A name that can't be removed is hidden from lists and harms nobody.
        try? directory.unlink(temporaryName)
    }

    private func giveNameExclusively(_ name: String, inode: Inode?) throws(Errno) {
        do {
            try directory.link(temporaryName, to: directory, name)
        } catch let error where error == .fileExists {
            // Over NFS the answer to our own link may be lost, and the repeated call finds what it made.
            guard let inode, try directory.status(name)?.inode == inode else { throw error }
        } catch let error where error.isNoHardLink {
            try directory.renameExclusively(temporaryName, to: directory, name)
        }
    }
}

extension PendingFile {
    /// A pending file that is being written.
    struct Writer: Sendable {
        let file: PendingFile
        let open: OpenFile
        /// How many bytes are there from the time before.
        let keptBytes: Int64
        /// Whether the next one finds it again.
        let isKept: Bool

        /// Makes a file, empty.
        init(in directory: Directory) throws(Errno) {
            file = PendingFile(in: directory)
            open = try directory.create(file.temporaryName)
            (keptBytes, isKept) = (0, false)
        }

        /// Finds the file again that is to be called `name`, or makes it; `nil` while another process writes it, or if this
        /// device can't say when it was started.
        init?(resuming name: String, in directory: Directory) throws(Errno) {
            guard let session = Device.session else { return nil }
            file = PendingFile(in: directory, "\(session)-\(name)")
            do {
                open = try directory.openToAppend(file.temporaryName)
            } catch let error where error == .fileNameTooLong {
                return nil
            }
            guard open.lock(), let named = try directory.status(file.temporaryName) else { return nil }
            // Somebody may have given it its own name before the lock was there.
            let status = try open.status()
            guard named.inode == status.inode, status.type == .regular else { return nil }
            (keptBytes, isKept) = (status.size, true)
        }
    }

    /// Whether this device knows when it was started: what was written before may not be on the medium.
    static var canBeResumed: Bool { Device.session != nil }
}

private enum Device {
    /// What tells the time since this device was started from all others; `nil` if it doesn't say.
    static let session: String? = {
        #if canImport(Darwin)
        var size = 0
        guard sysctlbyname("kern.bootsessionuuid", nil, &size, nil, 0) == 0, size > 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: size)
        guard sysctlbyname("kern.bootsessionuuid", &bytes, &size, nil, 0) == 0 else { return nil }
        let text = String(decoding: bytes.prefix(size - 1), as: UTF8.self)
        #else
        let path = "/proc/sys/kernel/random/boot_id"
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
        #endif
        return UUID(uuidString: text.trimmingCharacters(in: .whitespacesAndNewlines))?.uuidString.lowercased()
    }()
}
