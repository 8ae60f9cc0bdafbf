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

    /// How a server is talked to.
    struct Access {
        /// Where an S3 server is that isn't Amazon's.
        var endpoint: String?
        /// The region of a bucket.
        var region: String?
        /// Where a WebDAV share's password is; else in `STORESYNC_WEBDAV_PASSWORD`.
        var passwordFile: String?
        /// A certificate to trust besides those of the system.
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
            // Without the URL: what is printed may be kept.
            throw UsageError("A remote's URL holds no password. Give it in STORESYNC_WEBDAV_PASSWORD or in a file.")
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

    /// The server's password: a file's first line, or the environment's.
    private func password(_ file: String?) throws -> String? {
        guard let file else { return ProcessInfo.processInfo.environment["STORESYNC_WEBDAV_PASSWORD"] }
        guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
            throw UsageError("The remote's password can't be read from \(file). Name a text file that can be read.")
        }
        return text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
}

/// Bad arguments, found after they were parsed.
struct UsageError: Error {
    let message: String

    init(_ message: String) {
        self.message = message
    }
}
