package import Foundation
import RemoteStorage
package import RemoteStorageS3
import ServerFixtures
import Synchronization
import TestSupport

/// A kind of S3 server that may be installed.
package enum S3ServerKind: String, Sendable, CaseIterable, CustomStringConvertible {
    case seaweedFS, seaweedFSTLS, moto
    /// OpenStack Swift.
    case swift

    package static let plain: [S3ServerKind] = [.seaweedFS, .moto]

    package var description: String { rawValue }

    /// The folder in which `.ci/prepare` installs the servers.
    fileprivate static let programs =
        ProcessInfo.processInfo.environment["STORESYNC_TEST_SERVERS"]
        ?? FileManager.default.homeDirectoryForCurrentUser.appending(path: ".cache/storesync-servers").path

    /// Whether OpenStack Swift is tested: in deep tests, if it is installed.
    package static let triesSwift =
        TestDepth.isDeep && FileManager.default.isExecutableFile(atPath: Self.swift.program)

    var program: String {
        switch self {
        case .seaweedFS, .seaweedFSTLS: Self.programs + "/bin/weed"
        case .moto: Self.programs + "/bin/moto_server"
        case .swift: "/usr/bin/swift-proxy-server"
        }
    }

    /// Whether tests can use the server; in continuous integration, a missing server is a failure.
    package var isInstalled: Bool {
        if FileManager.default.isExecutableFile(atPath: program) { return true }
        if ProcessInfo.processInfo.environment["CI"] != nil { return true }
        FileHandle.standardError.write(
            Data("\(self) isn't installed, so its tests are skipped. Run .ci/prepare to install it.\n".utf8)
        )
        return false
    }

    package static let plainInstalled = plain.filter(\.isInstalled)
}

/// An S3 server on loopback, with a folder of its own; it ends with its last reference, or with this process.
package final class S3Server: Sendable {
    package static let accessKeyID = "testAccessKey"
    /// The secret, which no log, error or URL may contain.
    package static let secret = "correct horse/battery+staple"
    package static let credentials = S3Credentials(accessKeyID: accessKeyID, secretAccessKey: secret)
    package static let bucket = "test-bucket"

    /// Servers that many tests share, each with a prefix of its own.
    private static let shared = Mutex<[S3ServerKind: Task<S3Server, any Error>]>([:])

    package let kind: S3ServerKind
    package let folder: URL
    package let port: Int
    private let process: Process
    /// The server ends when this pipe is closed.
    private let lifeline = Pipe()

    /// Starts a server and waits until it answers.
    package init(_ kind: S3ServerKind) async throws {
        self.kind = kind
        port = try freePort()
        folder = FileManager.default.temporaryDirectory
            .appending(path: "storesync-s3-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(
            at: folder.appending(path: "data"),
            withIntermediateDirectories: true
        )
        process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.standardInput = lifeline
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        // However this process ends, the pipe closes, and the server ends with it.
        let script = """
            folder=$1; shift
            "$@" </dev/null >"$folder/log" 2>&1 &
            cat >/dev/null
            kill -9 $! $(cat "$folder/pids" 2>/dev/null)
            wait
            rm -rf "$folder"
            """
        var environment = ProcessInfo.processInfo.environment
        for name in environment.keys where name.hasPrefix("AWS_") { environment[name] = nil }
        // moto accepts parts of any size, so that tests with many parts are quick.
        environment["S3_UPLOAD_PART_MIN_SIZE"] = "1"
        process.environment = environment
        let (arguments, filer) = try await configure()
        process.arguments = ["-c", script, "sh", folder.path] + arguments
        try process.run()
        try await waitUntilReady(filer)
    }

    deinit {
        try? lifeline.fileHandleForWriting.close()
    }

    /// The server of that kind that many tests share.
    package static func shared(_ kind: S3ServerKind) async throws -> S3Server {
        let task = shared.withLock { shared in
            let task = shared[kind] ?? Task { try await S3Server(kind) }
            shared[kind] = task
            return task
        }
        return try await task.value
    }

    /// The server's URL, through another port if one is given.
    package func endpoint(port: Int? = nil) -> URL {
        guard let url = URL(string: "\(kind == .seaweedFSTLS ? "https" : "http")://localhost:\(port ?? self.port)")
        else {
            preconditionFailure("the server's URL isn't valid")
        }
        return url
    }

    package var certificate: URL { folder.appending(path: "certificate.pem") }

    package func configuration(port: Int? = nil, prefix: String = UUID().uuidString) throws -> S3Configuration {
        let credentials =
            kind == .swift
            ? S3Credentials(accessKeyID: Self.swiftAccessKeyID, secretAccessKey: Self.swiftSecret) : Self.credentials
        return try configuration(port: port, prefix: prefix, credentials: credentials)
    }

    package func configuration(
        port: Int? = nil,
        prefix: String = UUID().uuidString,
        credentials: S3Credentials?
    ) throws -> S3Configuration {
        var configuration = try S3Configuration(
            bucket: Self.bucket,
            prefix: prefix,
            endpoint: endpoint(port: port),
            credentials: credentials
        )
        configuration.retries = RequestRetries(attempts: 4, delay: .milliseconds(1))
        if kind == .seaweedFSTLS { configuration.trustedCertificates = [certificate] }
        return configuration
    }

    /// A backend with an empty prefix on the server.
    package func backend() throws -> S3Backend { S3Backend(try configuration()) }

    // MARK: Starting

    private func configure() async throws -> (arguments: [String], filer: Int?) {
        guard kind != .moto else {
            return ([S3ServerKind.programs + "/bin/python3", "-c", Self.serialMoto, "-p", "\(port)"], nil)
        }
        guard kind != .swift else { return (try configureSwift(), nil) }
        let user = """
            {"identities": [{"name": "tests", "actions": ["Admin", "Read", "List", "Tagging", "Write"], "credentials": \
            [{"accessKey": "\(Self.accessKeyID)", "secretKey": "\(Self.secret)"}]}]}
            """
        try Data(user.utf8).write(to: folder.appending(path: "s3.json"))
        let ports = try (0..<7).map { _ in try freePort() }
        var arguments = [
            kind.program, "-logtostderr=true", "server", "-dir=\(folder.path)/data", "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1", "-filer",
            "-s3", "-s3.config=\(folder.path)/s3.json", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=100",
            "-master.volumeSizeLimitMB=64", "-master.port=\(ports[0])", "-master.port.grpc=\(ports[1])",
            "-volume.port=\(ports[2])", "-volume.port.grpc=\(ports[3])", "-filer.port=\(ports[4])",
            "-filer.port.grpc=\(ports[5])", "-s3.port.grpc=\(ports[6])", "-s3.port=\(port)",
        ]
        if kind == .seaweedFSTLS {
            try await makeCertificate(in: folder)
            arguments += ["-s3.cert.file=\(certificate.path)", "-s3.key.file=\(folder.path)/key.pem"]
        }
        return (arguments, ports[4])
    }

    /// moto's server, which handles one complete request at a time.
    ///
    /// moto itself checks for a file and creates it in two steps, so that two concurrent writers could both succeed.
    private static let serialMoto = """
        from io import BytesIO
        from threading import Lock
        from moto import server

        answer, lock = server.DomainDispatcherApplication.__call__, Lock()

        def answer_alone(application, environ, start_response):
            length = int(environ.get("CONTENT_LENGTH") or 0)
            body = environ["wsgi.input"].read(length)
            if len(body) < length:
                raise ConnectionError("a partial request")
            environ["wsgi.input"] = BytesIO(body)
            with lock:
                return answer(application, environ, start_response)

        server.DomainDispatcherApplication.__call__ = answer_alone
        server.main()
        """

    /// Creates the bucket, and waits until it exists: only a response shows that a server is ready.
    private func waitUntilReady(_ filer: Int?) async throws {
        var isMade = false
        for _ in 0..<3000 {
            if let filer {
                // A bucket is a directory of SeaweedFS. A ready server refuses unsigned requests.
                isMade = isMade || LoopbackSocket.status("POST", "/buckets/\(Self.bucket)/", port: filer) == 201
                let isOpen =
                    kind == .seaweedFSTLS
                    ? isListening(port) : LoopbackSocket.status("GET", "/\(Self.bucket)", port: port) == 403
                if isMade, isOpen { return }
            } else if kind == .swift {
                if makesContainer() { return }
            } else if LoopbackSocket.status("PUT", "/\(Self.bucket)", port: port) == 200 {
                return
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        let log = (try? String(contentsOf: folder.appending(path: "log"), encoding: .utf8)) ?? "it left no log"
        throw RemoteError(.unavailable, "\(kind) didn't start: \(log.suffix(2000))")
    }
}
