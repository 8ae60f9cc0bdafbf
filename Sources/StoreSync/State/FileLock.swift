import Foundation

/// A lock between processes, and between instances in one, that ends with the process that holds it at the latest.
final class FileLock: Sendable {
    /// Whether others may hold the lock too.
    enum Mode: Sendable {
        case shared, exclusive
    }

    /// What is locked.
    enum Subject: Sendable {
        /// A device's identity in an application: shared by whoever uses it, exclusive for whoever changes it.
        case application(ApplicationKey)
        /// Pushing a document.
        case document(DocumentKey)
        /// A local store, by its canonical path.
        case store(String)

        /// The name that the lock is kept under.
        var name: String {
            switch self {
            case .application(let key): "application\0\(key.remote)\0\(key.application)"
            case .document(let key):
                "document\0\(key.application.remote)\0\(key.application.application)\0\(key.document)"
            case .store(let path): "store\0\(path)"
            }
        }

        fileprivate var description: String {
            switch self {
            case .application(let key): "This device's registration with \(key.application)"
            case .document(let key): "The document \(key.document)"
            case .store(let path): "The store \(path)"
            }
        }
    }

    private let handle: FileHandle

    /// Takes the lock, or throws ``StoreSyncError/Code/busy`` at once if somebody has it.
    init(at url: URL, _ subject: Subject, _ mode: Mode) throws {
        let descriptor = open(url.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw StoreSyncError(
                .cannotWrite,
                "The lock \(url.path) can't be opened on this device: \(String(cString: strerror(errno))). Check the state directory."
            )
        }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        let operation = (mode == .shared ? LOCK_SH : LOCK_EX) | LOCK_NB
        while flock(descriptor, operation) != 0 {
            let code = errno
            if code == EINTR { continue }
            guard code == EWOULDBLOCK else {
                throw StoreSyncError(
                    .cannotWrite,
                    "\(url.path) can't be locked on this device: \(String(cString: strerror(code)))."
                )
            }
            throw StoreSyncError(
                .busy,
                "\(subject.description) is being used by another operation on this device. Try again when it has ended."
            )
        }
    }

    /// Gives the lock back.
    ///
    /// What happens anyway when the last reference goes.
    func release() {
        _ = flock(handle.fileDescriptor, LOCK_UN)
    }
}
