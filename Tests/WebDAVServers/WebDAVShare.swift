package import Foundation
import RemoteStorage
package import RemoteStorageWebDAV

/// An empty directory of its own on a WebDAV server that many tests share.
package struct WebDAVShare: Sendable {
    package static let credentials = WebDAVCredentials(user: "user", password: "correct horse")

    private let server: WebDAVServer
    /// The directory's name at the server's root; `nil` if it is the root.
    private let name: String?

    /// Creates a directory through the server, because rclone caches the names that it has seen.
    package init(on kind: ServerKind) async throws {
        let root = try await Self.root(of: kind)
        let name = UUID().uuidString
        try await root.backend().createDirectory(at: RemotePath(name))
        self.init(server: root.server, name: name)
    }

    private init(server: WebDAVServer, name: String?) {
        (self.server, self.name) = (server, name)
    }

    /// Returns the root of a server, in which other tests' directories are.
    package static func root(of kind: ServerKind) async throws -> WebDAVShare {
        WebDAVShare(server: try await WebDAVServer.shared(kind), name: nil)
    }

    package var kind: ServerKind { server.kind }
    package var port: Int { server.port }

    /// The directory on the disk.
    package var folder: URL {
        name.map { server.root.appending(path: $0, directoryHint: .isDirectory) } ?? server.root
    }

    /// The certificate of a server with TLS.
    package var certificate: URL { server.folder.appending(path: "certificate.pem") }

    /// The path in URLs, which ends with a slash.
    package var path: String { server.path + (name.map { $0 + "/" } ?? "") }

    package var url: URL { url(port: port) }

    /// Returns the URL of the share at a port, such as a proxy's.
    package func url(port: Int) -> URL {
        guard let url = URL(string: "\(kind == .apacheTLS ? "https" : "http")://localhost:\(port)\(path)") else {
            preconditionFailure("the URL of a test server must be valid")
        }
        return url
    }

    package func configuration(
        port: Int? = nil,
        credentials: WebDAVCredentials? = WebDAVShare.credentials
    ) throws -> WebDAVConfiguration {
        var configuration = try WebDAVConfiguration(url: url(port: port ?? self.port), credentials: credentials)
        configuration.retries = WebDAVConfiguration.Retries(attempts: 4, delay: .milliseconds(1))
        if kind == .apacheTLS { configuration.trustedCertificates = [certificate] }
        return configuration
    }

    package func backend() throws -> WebDAVBackend { WebDAVBackend(try configuration()) }
}
