import Foundation
import RemoteStorage
import RemoteStorageS3
import RemoteStorageWebDAV
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

    /// How to access a server.
    struct Access {
        /// The address of an S3 server other than Amazon's.
        var endpoint: String?
        /// The region of a bucket.
        var region: String?
        /// The file with a WebDAV share's password; `nil` if it's in `STORESYNC_WEBDAV_PASSWORD`.
        var passwordFile: String?
        /// The file with a certificate to trust besides the system's.
        var certificate: String?
        /// Whether credentials may travel without TLS.
        var isInsecure = false
    }

    func backend(_ access: Access) throws -> any RemoteBackend {
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
        case "webdav", "webdavs":
            return try webDAVBackend(access)
        case "s3":
            return try s3Backend(access)
        default:
            throw UsageError(
                "Remotes of the kind \(url.scheme ?? "") aren't known. A folder is file:///path, a WebDAV share webdavs://host/path, a bucket s3://bucket/prefix."
            )
        }
    }

    private func webDAVBackend(_ access: Access) throws -> WebDAVBackend {
        guard url.password() == nil else {
            // The message omits the URL: printed text may be stored, and the URL contains the password.
            throw UsageError("A remote's URL can't hold a password. Give it in STORESYNC_WEBDAV_PASSWORD or in a file.")
        }
        var credentials: WebDAVCredentials?
        if let user = url.user(percentEncoded: false), !user.isEmpty {
            guard let password = try password(access.passwordFile) else {
                throw StoreSyncError(
                    .remoteUnauthorized,
                    "The password of \(user) is missing: give --remote-password-file or STORESYNC_WEBDAV_PASSWORD."
                )
            }
            credentials = WebDAVCredentials(user: user, password: password)
        }
        do {
            var configuration = try WebDAVConfiguration(url: url, credentials: credentials)
            configuration.allowsCredentialsWithoutTLS = access.isInsecure
            configuration.trustedCertificates = access.certificate.map { [URL(fileURLWithPath: $0)] } ?? []
            return WebDAVBackend(configuration)
        } catch {
            throw UsageError(error.message)
        }
    }

    private func s3Backend(_ access: Access) throws -> S3Backend {
        do {
            var configuration = try S3Configuration(url: url, endpoint: access.endpoint, region: access.region)
            configuration.allowsCredentialsWithoutTLS = access.isInsecure
            configuration.trustedCertificates = access.certificate.map { [URL(fileURLWithPath: $0)] } ?? []
            return S3Backend(configuration)
        } catch {
            guard error.code == .invalidPath else { throw error }
            throw UsageError(error.message)
        }
    }

    /// The server's password: the file's text without its last line end, or the environment variable's value.
    private func password(_ file: String?) throws -> String? {
        guard let file else { return ProcessInfo.processInfo.environment["STORESYNC_WEBDAV_PASSWORD"] }
        guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
            throw UsageError("The remote's password can't be read from \(file). Name a text file that can be read.")
        }
        return text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
}

/// Invalid arguments that parsing didn't detect.
struct UsageError: Error {
    let message: String

    init(_ message: String) {
        self.message = message
    }
}
