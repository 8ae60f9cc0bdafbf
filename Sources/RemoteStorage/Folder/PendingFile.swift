import Foundation
import SystemPackage

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
    private let temporaryName = prefix + UUID().uuidString.lowercased() + suffix

    /// Chooses a name for a file that is to be in `directory`.
    init(in directory: Directory) {
        self.directory = directory
    }

    /// Makes the file, empty.
    func create() throws(Errno) -> OpenFile {
        try directory.create(temporaryName)
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
