import FileSupport
import Foundation
import Operations
import SystemPackage

/// A lock between processes, and between instances in one process; it ends with its process at the latest.
final class FileLock: Sendable {
    /// Whether other instances may hold the lock at the same time.
    enum Mode: Sendable {
        case shared, exclusive
    }

    /// What is locked.
    enum Subject: Sendable {
        /// A device's identity in an application: shared by operations that use it, exclusive for changing it.
        case application(ApplicationKey)
        /// Changing an application's password.
        case password(ApplicationKey)
        /// Synchronizing an application's keychain.
        case keychain(ApplicationKey)
        /// Pushing a document.
        case document(DocumentKey)
        /// Synchronizing a document record by record.
        case synchronization(DocumentKey)
        /// A local store, by its canonical path.
        case store(LocalPath)

        /// The lock's name, which is unique for each subject, whatever characters its identifiers contain.
        var name: String {
            let parts =
                switch self {
                case .application(let key): ["application", key.remote, key.application]
                case .password(let key): ["password", key.remote, key.application]
                case .keychain(let key): ["keychain", key.remote, key.application]
                case .document(let key):
                    ["document", key.application.remote, key.application.application, key.document]
                case .synchronization(let key):
                    ["synchronization", key.application.remote, key.application.application, key.document]
                case .store(let path): ["store", path.text]
                }
            return parts.map { "\($0.utf8.count):\($0)" }.joined()
        }

        /// The key that operations of one supervisor have in common if they need the lock: they wait for each other.
        var exclusionKey: ExclusionKey {
            switch self {
            case .application(let key): ExclusionKey("\(key.application) at \(key.remote)")
            case .password(let key): ExclusionKey("password of \(key.application) at \(key.remote)")
            case .keychain(let key): ExclusionKey("keychain of \(key.application) at \(key.remote)")
            case .document(let key):
                ExclusionKey("document \(key.document) of \(key.application.application) at \(key.application.remote)")
            case .synchronization(let key):
                ExclusionKey("replica \(key.document) of \(key.application.application) at \(key.application.remote)")
            case .store(let path): ExclusionKey("store \(path)")
            }
        }

        fileprivate var description: String {
            switch self {
            case .application(let key): "This device's registration with \(key.application)"
            case .password(let key): "The password of \(key.application)"
            case .keychain(let key): "The keychain of \(key.application)"
            case .document(let key): "The document \(key.document)"
            case .synchronization(let key): "The replica of the document \(key.document)"
            case .store(let path): "The store \(path)"
            }
        }
    }

    private let file: OpenFile

    /// Takes the lock, or throws ``StoreSyncError/Code/busy`` at once if another operation holds it.
    ///
    /// The file of an exclusive lock names its holder. It's only for the message of that error, so a failure to write it
    /// has no effect.
    init(at url: URL, _ subject: Subject, _ mode: Mode, by holder: String) throws {
        file = try Self.open(url)
        let isTaken = try LocalFile.writing(url.path) { [file] () throws(Errno) in
            try file.lock(mode == .shared ? .shared : .exclusive)
        }
        guard isTaken else {
            let name = (try? file.read(at: 0, upTo: Self.maximumNameBytes)).map { String(decoding: $0, as: UTF8.self) }
            throw StoreSyncError(
                .busy,
                """
                \(subject.description) is being used by \(name.flatMap { $0.isEmpty ? nil : $0 } ?? "another operation") \
                on this device. Try again when it has ended.
                """
            )
        }
        // A former holder that was killed has left its name.
        try? file.truncate(to: 0)
        guard mode == .exclusive else { return }
        try? file.write("\(Self.words(for: holder)) of process \(getpid())".utf8.prefix(Self.maximumNameBytes))
    }

    /// A holder in words: an operation without a name of its own has the name of its type.
    private static func words(for holder: String) -> String {
        let suffix = "Operation"
        guard holder.hasSuffix(suffix) else { return holder }
        return holder.dropLast(suffix.count).reduce(into: "the") { words, character in
            words += character.isUppercase ? " \(character.lowercased())" : "\(character)"
        }
    }

    private static let maximumNameBytes = 200

    /// Waits for a lock that is held for moments only.
    init(waitingAt url: URL) throws {
        file = try Self.open(url)
        _ = try LocalFile.writing(url.path) { [file] () throws(Errno) in try file.lock(waits: true) }
    }

    private static func open(_ url: URL) throws -> OpenFile {
        try LocalFile.writing(url.path) { () throws(Errno) in
            let file = try OpenFile(path: url.path, O_RDWR | O_CREAT | O_NOFOLLOW)
            // The umask may have narrowed the mode: the owner must be able to open the file again. Only then, because some file
            // systems refuse to change modes.
            if try !file.status().permissions.contains(.ownerReadWrite) { try file.setPermissions(.ownerReadWrite) }
            return file
        }
    }

    /// Releases the lock.
    ///
    /// This also happens when the last reference to this object is released.
    func release() {
        file.unlock()
    }
}
