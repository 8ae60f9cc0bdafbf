import Crypto
package import Foundation
import RemoteStorage
package import RemoteStorageWebDAV
import ServerFixtures

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A kind of WebDAV server that may be installed.
package enum ServerKind: String, Sendable, CaseIterable, CustomStringConvertible {
    case apache, lighttpd, nginx, rclone
    /// Apache with digest authentication, and Apache with TLS.
    case apacheDigest, apacheTLS

    package static let plain: [ServerKind] = [.apache, .lighttpd, .nginx, .rclone]

    package var description: String { rawValue }

    var program: String {
        switch self {
        case .apache, .apacheDigest, .apacheTLS: "/usr/sbin/apache2"
        case .lighttpd: "/usr/sbin/lighttpd"
        case .nginx: "/usr/sbin/nginx"
        case .rclone: "/usr/bin/rclone"
        }
    }

    /// Whether tests can use it; in continuous integration, a missing server is a failure.
    package var isInstalled: Bool {
        FileManager.default.isExecutableFile(atPath: program) || ProcessInfo.processInfo.environment["CI"] != nil
    }

    package static let plainInstalled = plain.filter(\.isInstalled)
}

/// A WebDAV server on loopback, with its own folder; it ends when its last reference is released.
package final class WebDAVServer: Sendable {
    package static let credentials = WebDAVCredentials(user: "user", password: "correct horse")

    package let kind: ServerKind
    package let folder: URL
    package let port: Int
    private let process: Process

    /// Starts a server and waits until it accepts connections.
    package init(_ kind: ServerKind) async throws {
        self.kind = kind
        port = try freePort()
        folder = FileManager.default.temporaryDirectory
            .appending(path: "storesync-server-\(UUID().uuidString)", directoryHint: .isDirectory)
        for name in ["", "share", "locks", "temporary"] {
            try FileManager.default.createDirectory(at: folder.appending(path: name), withIntermediateDirectories: true)
        }
        process = Process()
        process.executableURL = URL(filePath: kind.program)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try await configure()
        process.terminationHandler = { [folder] _ in cleanUp(folder) }
        try process.run()
        // A server doesn't report that it is ready, so this polls its port.
        for _ in 0..<1000 {
            if isListening(port) { return }
            guard process.isRunning else { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        let log = (try? String(contentsOf: folder.appending(path: "error.log"), encoding: .utf8)) ?? "it left no log"
        throw RemoteError(.unavailable, "\(kind) didn't start: \(log)")
    }

    deinit {
        guard process.isRunning else { return cleanUp(folder) }
        // Kills its workers too, which are in its process group. Other signals may be blocked in the server.
        kill(-process.processIdentifier, SIGKILL)
    }

    /// The folder that the server serves.
    package var share: URL { folder.appending(path: "share", directoryHint: .isDirectory) }

    package var url: URL { url(port: port) }

    /// Returns the URL of the share at a port, such as a proxy's.
    package func url(port: Int) -> URL {
        let scheme = kind == .apacheTLS ? "https" : "http"
        let path = kind == .rclone || kind == .nginx || kind == .lighttpd ? "/" : "/dav/a%20share/"
        guard let url = URL(string: "\(scheme)://localhost:\(port)\(path)") else {
            preconditionFailure("the URL of a test server must be valid")
        }
        return url
    }

    package func configuration(port: Int? = nil, credentials: WebDAVCredentials? = WebDAVServer.credentials) throws
        -> WebDAVConfiguration
    {
        var configuration = try WebDAVConfiguration(url: url(port: port ?? self.port), credentials: credentials)
        configuration.retries = WebDAVConfiguration.Retries(attempts: 4, delay: .milliseconds(1))
        if kind == .apacheTLS { configuration.trustedCertificates = [folder.appending(path: "certificate.pem")] }
        return configuration
    }

    package func backend() throws -> WebDAVBackend { WebDAVBackend(try configuration()) }

    // MARK: Configurations

    private func configure() async throws {
        let user = Self.credentials.user
        let hash = Data(Insecure.SHA1.hash(data: Array("correct horse".utf8))).base64EncodedString()
        try write("\(user):{SHA}\(hash)\n", to: "passwords")
        switch kind {
        case .apache, .apacheDigest, .apacheTLS: try await configureApache()
        case .lighttpd: try configureLighttpd()
        case .nginx: try configureNginx()
        case .rclone:
            process.arguments = [
                "--config", "/dev/null", "serve", "webdav", share.path, "--addr", "127.0.0.1:\(port)", "--user", user,
            ]
            process.environment = ["RCLONE_PASS": "correct horse", "PATH": "/usr/bin:/bin"]
        }
        guard geteuid() == 0 else { return }
        try await run("/bin/chown", ["-R", "www-data:www-data", folder.path])
    }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: folder.appending(path: name))
    }

    private func configureApache() async throws {
        var modules = [
            "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest", "dav",
            "dav_fs", "alias",
        ]
        var extra = ""
        if kind == .apacheTLS {
            modules += ["ssl", "socache_shmcb"]
            try await makeCertificate(in: folder)
            extra = """
                SSLEngine On
                SSLCertificateFile "\(folder.path)/certificate.pem"
                SSLCertificateKeyFile "\(folder.path)/key.pem"
                """
        }
        var authentication = "AuthType Basic\nAuthUserFile \"\(folder.path)/passwords\""
        if kind == .apacheDigest {
            let digest = DigestPassword.entry(user: Self.credentials.user, realm: "a realm", password: "correct horse")
            try write(digest + "\n", to: "digests")
            authentication = "AuthType Digest\nAuthDigestDomain /\nAuthUserFile \"\(folder.path)/digests\""
        }
        let loaded = modules.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }
        try write(
            """
            ServerRoot "\(folder.path)"
            Listen 127.0.0.1:\(port)
            ServerName localhost
            PidFile "\(folder.path)/pid"
            ErrorLog "\(folder.path)/error.log"
            \(loaded.joined(separator: "\n"))
            \(geteuid() == 0 ? "User www-data\nGroup www-data" : "")
            DAVLockDB "\(folder.path)/locks/DavLock"
            AllowEncodedSlashes NoDecode
            Alias "/dav/a share" "\(folder.path)/share"
            \(extra)
            <Directory />
            Require all denied
            </Directory>
            <Directory "\(folder.path)/share">
            Require all granted
            </Directory>
            <Location /dav>
            DAV On
            AuthName "a realm"
            \(authentication)
            Require valid-user
            </Location>
            """,
            to: "httpd.conf"
        )
        process.arguments = ["-f", "\(folder.path)/httpd.conf", "-D", "FOREGROUND"]
    }

    private func configureLighttpd() throws {
        try write(
            """
            server.modules = ("mod_auth", "mod_authn_file", "mod_access", "mod_webdav")
            mimetype.assign = ("" => "application/octet-stream")
            server.bind = "127.0.0.1"
            server.port = \(port)
            server.document-root = "\(folder.path)/share"
            server.upload-dirs = ("\(folder.path)/temporary")
            server.errorlog = "\(folder.path)/error.log"
            webdav.activate = "enable"
            webdav.sqlite-db-name = "\(folder.path)/locks/webdav.db"
            auth.backend = "htpasswd"
            auth.backend.htpasswd.userfile = "\(folder.path)/passwords"
            auth.require = ("/" => ("method" => "basic", "realm" => "a realm", "require" => "valid-user"))
            """,
            to: "lighttpd.conf"
        )
        process.arguments = ["-D", "-f", "\(folder.path)/lighttpd.conf"]
    }

    private func configureNginx() throws {
        let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
            "\($0)_temp_path \"\(folder.path)/temporary/\($0)\";"
        }
        try write(
            """
            load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;
            \(geteuid() == 0 ? "user www-data;" : "")
            pid "\(folder.path)/pid";
            error_log "\(folder.path)/error.log";
            daemon off;
            events {}
            http {
                access_log off;
                \(places.joined(separator: "\n"))
                dav_ext_lock_zone zone=locks:1m;
                server {
                    listen 127.0.0.1:\(port);
                    client_max_body_size 0;
                    auth_basic realm;
                    auth_basic_user_file "\(folder.path)/passwords";
                    location / {
                        root "\(folder.path)/share";
                        dav_methods PUT DELETE MKCOL COPY MOVE;
                        dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;
                        dav_ext_lock zone=locks;
                        create_full_put_path off;
                    }
                }
            }
            """,
            to: "nginx.conf"
        )
        process.arguments = ["-c", "\(folder.path)/nginx.conf", "-e", "\(folder.path)/error.log"]
    }
}

/// Removes a folder; a server that is ending may remove files in it at the same time.
private func cleanUp(_ folder: URL) {
    try? FileManager.default.removeItem(at: folder)
}
