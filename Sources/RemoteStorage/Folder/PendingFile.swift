import FileSupport
import Foundation
import SystemPackage

#if canImport(Darwin)
import Darwin
#endif

/// A file under a temporary name, until it is complete and gets its own name.
///
/// It isn't listed until ``commit(as:at:when:isShared:)``. The code that creates a pending file commits or discards it.
struct PendingFile: Sendable {
    private let directory: Directory
    private let temporaryName: String

    /// Chooses a temporary name for a file in `directory`.
    init(in directory: Directory) {
        self.init(in: directory, UUID().uuidString.lowercased())
    }

    private init(in directory: Directory, _ name: String) {
        self.directory = directory
        temporaryName = TemporaryName.with(name)
    }

    /// Creates the pending file as a hard link to an existing file.
    func link(from source: Directory, _ name: String) throws(Errno) {
        try source.link(name, to: directory, temporaryName)
    }

    /// Gives the file its own name, atomically and durably, and removes what crashes have left in the directory.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - path: The path of that name, for errors.
    ///   - condition: The condition for the write.
    ///   - isShared: Whether the pending file is a hard link. Then another client may give the same file that name, too.
    /// - Returns: The committed file.
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
        // The temporary name still exists after a link, and after a rename onto another name of the same file.
        discard()
        removeAbandoned(at: status.st_mtim.tv_sec)
        try directory.synchronize()
        return RemoteItem(name: name, status)
    }

    /// Removes the temporary name.
    func discard() {
        // If the name can't be removed, it does no harm: lists hide it.
        try? directory.unlink(temporaryName)
    }

    /// The number of seconds without a change after which a temporary file counts as left by a crash.
    private static let abandonedAfter = 7 * 86_400

    /// Removes temporary files that crashes have left in the directory.
    ///
    /// - Parameter now: The time of the file that was just written, by the file system's clock.
    private func removeAbandoned(at now: Int) {
        for name in (try? directory.names()) ?? [] {
            guard let text = String(validating: name.dropLast(), as: UTF8.self), TemporaryName.isOne(text),
                let status = try? directory.status(name), status.type == .regular,
                // A copy is a link to a file that may be old.
                status.linkCount == 1, status.st_mtim.tv_sec < now - Self.abandonedAfter
            else { continue }
            try? directory.unlink(name)
        }
    }

    private func giveNameExclusively(_ name: String, inode: Inode?) throws(Errno) {
        do {
            try directory.link(temporaryName, to: directory, name)
        } catch let error where error == .fileExists {
            // Over NFS the answer to this call may be lost. The repeated call then finds the link that exists already.
            guard let inode, try directory.status(name)?.inode == inode else { throw error }
        } catch let error where error.isNoHardLink {
            try directory.renameIfSupported(temporaryName, to: directory, name)
        }
    }
}

extension PendingFile {
    /// A pending file that is being written.
    struct Writer: Sendable {
        let file: PendingFile
        let open: OpenFile
        /// The number of bytes that an earlier attempt wrote.
        let keptBytes: Int64
        /// Whether the next attempt finds the file again.
        let isKept: Bool

        /// Creates an empty file.
        init(in directory: Directory) throws(Errno) {
            file = PendingFile(in: directory)
            open = try directory.create(file.temporaryName)
            (keptBytes, isKept) = (0, false)
        }

        /// Opens the pending file of an earlier attempt to write `name`, or creates it.
        ///
        /// Fails while another process writes the file, or if this device doesn't identify its boot session.
        init?(resuming name: String, in directory: Directory) throws(Errno) {
            guard let session = Device.session else { return nil }
            file = PendingFile(in: directory, "\(session)-\(name)")
            do {
                open = try directory.openToAppend(file.temporaryName)
            } catch let error where error == .fileNameTooLong {
                return nil
            }
            guard (try? open.lock()) == true, let named = try directory.status(file.temporaryName) else { return nil }
            // Before this lock was taken, another process may have committed the file and created a new one.
            let status = try open.status()
            // Another user of the folder may have given a file of this user the name.
            guard named.inode == status.inode, status.type == .regular, status.linkCount == 1 else { return nil }
            (keptBytes, isKept) = (status.size, true)
        }
    }

    /// Whether this device identifies its boot session: bytes written before a restart may not be on the medium.
    static var canBeResumed: Bool { Device.session != nil }
}

private enum Device {
    /// The identifier of the time since this device was started; `nil` if the system has none.
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
