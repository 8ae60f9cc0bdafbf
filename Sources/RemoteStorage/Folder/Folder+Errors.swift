import FileSupport
import Foundation
import SystemPackage

extension RemoteItem {
    /// Creates an item from the status that the file system reports for a name.
    init(name: String, _ status: Stat) {
        let changed = status.st_mtim
        self.init(
            name: name,
            kind: status.type == .regular ? .file : status.type == .directory ? .directory : .other,
            modified: Date(timeIntervalSince1970: TimeInterval(changed.tv_sec) + TimeInterval(changed.tv_nsec) / 1e9)
        )
        guard kind == .file else { return }
        size = status.size
        let version = [Int64(status.inode.rawValue), Int64(changed.tv_sec), Int64(changed.tv_nsec), size]
        tag = RemoteTag(version.map { String($0, radix: 16) }.joined(separator: "-"))
    }
}

extension RemoteError {
    /// Creates the error that a failed system call means for a request on `path`.
    ///
    /// - Parameters:
    ///   - error: The failure.
    ///   - path: The path of the request.
    ///   - root: The folder's path in the file system, which errors name instead of the root's “/”.
    init(_ error: Errno, at path: RemotePath, in root: String) {
        let name = path == .root ? root : path.description
        if let common = Self.common(error, at: path) {
            self = common
            message = message.replacing("“\(path)”", with: "“\(name)”")
            return
        }
        switch error {
        case .permissionDenied, .notPermitted:
            let message =
                "The permissions of “\(name)”, or of the folder it's in, don't allow this (\(error)). Ask the owner for access."
            self.init(.notAllowed, message, path: path, cause: error)
        case .readOnlyFileSystem:
            let message = "“\(name)” is on a read-only file system. Mount that file system writable."
            self.init(.notAllowed, message, path: path, cause: error)
        case .noSpace, .diskQuotaExceeded, .fileTooLarge:
            let message = "There is no space for “\(name)” (\(error)). Free some space, then try again."
            self.init(.noSpace, message, path: path, cause: error)
        case .fileNameTooLong:
            let message = "A name in “\(name)” is too long for the file system. Choose a shorter name."
            self.init(.invalidPath, message, path: path, cause: error)
        case .directoryNotEmpty:
            let message =
                "“\(name)” got new files while it was removed. Try again. If that fails, close the program that writes there."
            self.init(.unavailable, message, path: path, cause: error)
        case _ where error.isUnsupported || error == .improperLink:
            let message = "The file system of “\(name)” can't do this (\(error)). Use a folder on another file system."
            self.init(.unsupported, message, path: path, cause: error)
        default:
            let message = "“\(name)” can't be reached (\(error)). Check the disk or the network, then try again."
            self.init(.unavailable, message, path: path, cause: error)
        }
    }

    /// The error that all backends have for a failed system call; `nil` if there is none.
    private static func common(_ error: Errno, at path: RemotePath) -> RemoteError? {
        switch error {
        case .noSuchFileOrDirectory: .notFound(path, cause: error)
        case .fileExists: .alreadyExists(path, cause: error)
        case .notDirectory: .notADirectory(path, cause: error)
        case .isDirectory: .notAFile(path, cause: error)
        case .tooManySymbolicLinkLevels, .noSuchAddressOrDevice: .specialFile(path, cause: error)
        default: nil
        }
    }
}
