import Crypto
import Foundation
import RemoteStorage
import RemoteStorageWebDAV
import ServerFixtures
import Synchronization

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

/// A WebDAV server on loopback, which all tests of this process share; it ends with this process.
///
/// A test has a directory of its own on it: a ``WebDAVShare``.
final class WebDAVServer: Sendable {
    private static let shared = Mutex<[ServerKind: Task<WebDAVServer, any Error>]>([:])

    let kind: ServerKind
    let folder: URL
    let port: Int
    private let process: Process
    /// The server ends when this pipe is closed.
    private let lifeline = Pipe()

    /// The server of that kind.
    static func shared(_ kind: ServerKind) async throws -> WebDAVServer {
        let task = shared.withLock { shared in
            let task = shared[kind] ?? Task { try await WebDAVServer(kind) }
            shared[kind] = task
            return task
        }
        return try await task.value
    }

    /// Starts a server and waits until it accepts connections.
    private init(_ kind: ServerKind) async throws {
        self.kind = kind
        port = try freePort()
        folder = FileManager.default.temporaryDirectory
            .appending(path: "storesync-server-\(UUID().uuidString)", directoryHint: .isDirectory)
        for name in ["", "share", "locks", "temporary"] {
            try FileManager.default.createDirectory(at: folder.appending(path: name), withIntermediateDirectories: true)
        }
        process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.standardInput = lifeline
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        // However this process ends, the pipe closes, and the server ends with it. The server gets a process group of its
        // own, so that its workers end too. Other signals may be blocked in the server.
        let script = """
            folder=$1; shift
            setsid "$@" </dev/null &
            cat >/dev/null
            kill -9 -$!
            wait
            rm -rf "$folder"
            """
        let (arguments, environment) = try await configure()
        process.environment = environment
        process.arguments = ["-c", script, "sh", folder.path, kind.program] + arguments
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

    /// The folder that the server serves.
    var root: URL { folder.appending(path: "share", directoryHint: .isDirectory) }

    /// The path of that folder in URLs.
    var path: String {
        switch kind {
        case .rclone, .nginx, .lighttpd: "/"
        case .apache, .apacheDigest, .apacheTLS: "/dav/a%20share/"
        }
    }

    // MARK: Configurations

    /// Writes the server's configuration, and returns its arguments and environment.
    private func configure() async throws -> (arguments: [String], environment: [String: String]) {
        let user = WebDAVShare.credentials.user
        let hash = Data(Insecure.SHA1.hash(data: Array("correct horse".utf8))).base64EncodedString()
        try write("\(user):{SHA}\(hash)\n", to: "passwords")
        let arguments: [String]
        var environment = ProcessInfo.processInfo.environment
        switch kind {
        case .apache, .apacheDigest, .apacheTLS: arguments = try await configureApache(user)
        case .lighttpd: arguments = try configureLighttpd()
        case .nginx: arguments = try configureNginx()
        case .rclone:
            arguments = [
                "--config", "/dev/null", "serve", "webdav", root.path, "--addr", "127.0.0.1:\(port)", "--user", user,
            ]
            environment = ["RCLONE_PASS": "correct horse", "PATH": "/usr/bin:/bin"]
        }
        if geteuid() == 0 { try await run("/bin/chown", ["-R", "www-data:www-data", folder.path]) }
        return (arguments, environment)
    }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: folder.appending(path: name))
    }

    private func configureApache(_ user: String) async throws -> [String] {
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
            let digest = DigestPassword.entry(user: user, realm: "a realm", password: "correct horse")
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
        return ["-f", "\(folder.path)/httpd.conf", "-D", "FOREGROUND"]
    }

    private func configureLighttpd() throws -> [String] {
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
        return ["-D", "-f", "\(folder.path)/lighttpd.conf"]
    }

    private func configureNginx() throws -> [String] {
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
        return ["-c", "\(folder.path)/nginx.conf", "-e", "\(folder.path)/error.log"]
    }
}
