import Foundation

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
        /// Synchronizing an application's keychain.
        case keychain(ApplicationKey)
        /// Pushing a document.
        case document(DocumentKey)
        /// A local store, by its canonical path.
        case store(String)

        /// The lock's name, which is unique for each subject, whatever characters its identifiers contain.
        var name: String {
            let parts =
                switch self {
                case .application(let key): ["application", key.remote, key.application]
                case .keychain(let key): ["keychain", key.remote, key.application]
                case .document(let key):
                    ["document", key.application.remote, key.application.application, key.document]
                case .store(let path): ["store", path]
                }
            return parts.map { "\($0.utf8.count):\($0)" }.joined()
        }

        fileprivate var description: String {
            switch self {
            case .application(let key): "This device's registration with \(key.application)"
            case .keychain(let key): "The keychain of \(key.application)"
            case .document(let key): "The document \(key.document)"
            case .store(let path): "The store \(path)"
            }
        }
    }

    private let handle: FileHandle

    /// Takes the lock, or throws ``StoreSyncError/Code/busy`` at once if another operation holds it.
    init(at url: URL, _ subject: Subject, _ mode: Mode) throws {
        handle = try Self.open(url)
        guard try Self.lock(handle, url, (mode == .shared ? LOCK_SH : LOCK_EX) | LOCK_NB) else {
            throw StoreSyncError(
                .busy,
                "\(subject.description) is being used by another operation on this device. Try again when it has ended."
            )
        }
    }

    /// Waits for a lock that is held for moments only.
    init(waitingAt url: URL) throws {
        handle = try Self.open(url)
        _ = try Self.lock(handle, url, LOCK_EX)
    }

    private static func open(_ url: URL) throws -> FileHandle {
        let descriptor = Foundation.open(url.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw StoreSyncError(writing: url.path, errno: errno) }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Takes the lock; returns `false` if it's held elsewhere and `operation` doesn't wait.
    private static func lock(_ handle: FileHandle, _ url: URL, _ operation: Int32) throws -> Bool {
        while flock(handle.fileDescriptor, operation) != 0 {
            switch errno {
            case EINTR: continue
            case EWOULDBLOCK: return false
            default: throw StoreSyncError(writing: url.path, errno: errno)
            }
        }
        return true
    }

    /// Releases the lock.
    ///
    /// This also happens when the last reference to this object is released.
    func release() {
        _ = flock(handle.fileDescriptor, LOCK_UN)
    }
}
