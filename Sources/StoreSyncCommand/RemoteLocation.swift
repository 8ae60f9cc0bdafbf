import Foundation
import RemoteStorage
import StoreSync

/// A remote as the command line names it.
struct RemoteLocation {
    let url: URL

    init(_ string: String) throws {
        guard let url = URL(string: string), url.scheme != nil else {
            // The message omits what was given: printed text may be stored, and it may contain a password.
            throw UsageError(
                """
                The remote isn't a URL. A folder is file:///path/to/folder, a WebDAV share webdavs://user@host/path, a bucket \
                s3://bucket/prefix. Characters that a URL can't hold are percent-encoded.
                """
            )
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

        /// The files with certificates to trust besides the system's.
        ///
        /// - Throws: ``UsageError`` if there is none in the file: connecting would only fail, as if the server were down; or if
        ///   the file is a pipe.
        func trustedCertificates() throws -> [URL] {
            guard let certificate else { return [] }
            let url = URL(named: certificate)
            var status = stat()
            guard stat(url.path, &status) != 0 || status.st_mode & S_IFMT != S_IFIFO else {
                throw UsageError("\(certificate) is a pipe, and a certificate is read more than once. Name a file.")
            }
            let bytes = try Data(ofFile: certificate, upTo: 16 << 20)
            guard bytes?.range(of: Data("CERTIFICATE-----".utf8)) != nil else {
                throw UsageError("\(certificate) can't be read, or holds no certificate in PEM form. Check the path.")
            }
            return [url]
        }
    }

    func backend(_ access: Access) throws -> any RemoteBackend {
        switch url.scheme?.lowercased() {
        case "file":
            guard ["", "localhost"].contains(url.host()?.lowercased() ?? "") else {
                throw UsageError("A file URL names no host: write file:///path, with three slashes.")
            }
            guard url.query() == nil, url.fragment() == nil else {
                throw UsageError("The remote \(url) has a query or a fragment. Write # in a path as %23, and ? as %3F.")
            }
            let path = url.path(percentEncoded: false)
            // Foundation's path is empty if the decoded bytes aren't UTF-8.
            guard path.hasPrefix("/") else {
                throw UsageError(
                    "The remote \(url) names no path in UTF-8. Percent-encode the path's characters as UTF-8: é is %C3%A9."
                )
            }
            // The file system takes a path up to the first NUL, which would be another folder.
            guard !path.utf8.contains(0) else { throw UsageError("The remote \(url) contains a NUL. Leave %00 out.") }
            return LocalFolderBackend(root: URL(fileURLWithPath: path, isDirectory: true))
        case "webdav", "webdavs":
            #if WebDAV
            return try webDAVBackend(access)
            #else
            throw Self.missingTrait("WebDAV")
            #endif
        case "s3":
            #if S3
            return try s3Backend(access)
            #else
            throw Self.missingTrait("S3")
            #endif
        default:
            throw UsageError(
                "Remotes of the kind \(url.scheme ?? "") aren't known. A folder is file:///path, a WebDAV share webdavs://host/path, a bucket s3://bucket/prefix."
            )
        }
    }

    /// The error of credentials that an attacker on the network could read; `remedy` is what to use instead.
    func exposedCredentials(_ remedy: String) -> UsageError {
        UsageError(
            "The credentials would be sent without TLS, and the network could read them. Use \(remedy), or allow it with --insecure."
        )
    }

    /// The error of a kind of remote that this executable was built without.
    private static func missingTrait(_ name: String) -> UsageError {
        UsageError("This storesync was built without \(name). Build it with the package's default traits.")
    }
}

/// Invalid arguments that parsing didn't detect.
struct UsageError: Error {
    let message: String

    init(_ message: String) {
        self.message = message
    }
}
