import Foundation
import RemoteStorage
import StoreSync

/// A remote as the command line names it.
struct RemoteLocation {
    private let url: URL

    init(_ string: String) throws {
        guard let url = URL(string: string), url.scheme != nil else {
            throw UsageError("The remote \(string) isn't a URL. A folder is file:///path/to/folder.")
        }
        self.url = url
    }

    func backend() throws -> any RemoteBackend {
        switch url.scheme {
        case "file":
            guard url.host(percentEncoded: false) ?? "" == "" || url.host() == "localhost" else {
                throw UsageError("A file URL names no host: write file:///path, with three slashes.")
            }
            let path = url.path(percentEncoded: false)
            guard path.hasPrefix("/") else { throw UsageError("The remote \(url) has no path: write file:///path.") }
            // The file system takes a path up to the first NUL, which would be another folder.
            guard !path.utf8.contains(0) else { throw UsageError("The remote \(url) contains a NUL. Leave %00 out.") }
            return LocalFolderBackend(root: URL(fileURLWithPath: path, isDirectory: true))
        case "webdav", "webdavs", "s3":
            throw UsageError("This version knows no \(url.scheme ?? "") remotes yet. Use a folder: file:///path.")
        default:
            throw UsageError("Remotes of the kind \(url.scheme ?? "") aren't known. A folder is file:///path.")
        }
    }
}

/// Bad arguments, found after they were parsed.
struct UsageError: Error {
    let message: String

    init(_ message: String) {
        self.message = message
    }
}
