import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import S3Servers
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageS3

extension S3Tests {
    @Suite("Access to a bucket", .serialized, .enabled(if: S3ServerKind.seaweedFS.isInstalled))
    struct AccessTests {
        private static let requests: [@Sendable (S3Backend) async throws -> Void] = [
            { _ = try await $0.status(of: .root) }, { _ = try await $0.status(of: RemotePath("file")) },
            { _ = try await $0.list(.root) }, { _ = try await $0.read(RemotePath("file")) },
            { _ = try await $0.capabilities() }, { try await $0.write([1], to: RemotePath("file"), when: .always) },
            { try await $0.remove(RemotePath("file")) }, { try await $0.createDirectory(at: RemotePath("d")) },
            { try await $0.move(RemotePath("file"), to: RemotePath("d")) },
        ]

        private func expect(_ code: RemoteError.Code, _ backend: S3Backend, _ words: String = "") async throws {
            for (number, request) in Self.requests.enumerated() {
                do {
                    try await request(backend)
                    Issue.record("request \(number) succeeded")
                } catch let error as RemoteError {
                    #expect(
                        error.code == code && (words.isEmpty || error.message.contains(words)),
                        "request \(number): \(error)"
                    )
                    #expect(!"\(error)".contains(S3Server.secret) && !"\(error)".contains("Signature="), "\(error)")
                }
            }
        }

        @Test("A bucket refuses access without the right key, and no printed text holds a secret")
        func keys() async throws {
            let server = try await S3Server.shared(.seaweedFS)
            let prefix = UUID().uuidString
            for credentials in [
                S3Credentials(accessKeyID: S3Server.accessKeyID, secretAccessKey: "wrong"),
                S3Credentials(accessKeyID: "stranger", secretAccessKey: S3Server.secret),
            ] {
                let configuration = try server.configuration(prefix: prefix, credentials: credentials)
                try await expect(.unauthorized, S3Backend(configuration), "Check the key")
                var dumped = "\(configuration)"
                dump(configuration, to: &dumped)
                #expect(!dumped.contains("wrong") && !dumped.contains(S3Server.secret))
            }
            try await expect(.notAllowed, S3Backend(server.configuration(prefix: prefix, credentials: nil)))
            #expect(try await S3Backend(server.configuration(prefix: prefix)).list(.root) == [])
            let token = S3Credentials(accessKeyID: "id", secretAccessKey: "secret", sessionToken: "token")
            #expect("\(token)\(token.debugDescription)\(String(reflecting: token))".contains("id"))
            #expect(!"\(token)\(token.debugDescription)\(String(reflecting: token))".contains("token"))
        }

        @Test("Access to a missing bucket, or to a port without a server, is an error and creates nothing")
        func missing() async throws {
            let server = try await S3Server.shared(.seaweedFS)
            var configuration = try S3Configuration(
                bucket: "no-such-bucket",
                endpoint: server.endpoint(),
                credentials: S3Server.credentials
            )
            configuration.retries = .none
            try await expect(.unavailable, S3Backend(configuration), "no bucket no-such-bucket")
            let unreachable = try #require(URL(string: "http://127.0.0.1:\(freePort())"))
            configuration = try S3Configuration(
                bucket: "bucket",
                endpoint: unreachable,
                credentials: S3Server.credentials
            )
            configuration.retries = .none
            try await expect(.unavailable, S3Backend(configuration), "can't be reached")
        }

        @Test("A bucket over TLS needs a trusted certificate for the right host")
        func certificates() async throws {
            let server = try await S3Server.shared(.seaweedFSTLS)
            var configuration = try server.configuration()
            #expect(try await S3Backend(configuration).list(.root) == [])
            configuration.trustedCertificates = []
            configuration.retries = RequestRetries(attempts: 2)
            let waits = Locked<[Duration]>([])
            configuration.clock = RecordingClock(waits: waits)
            try await expect(.unavailable, S3Backend(configuration), "isn't trusted")
            // No retry helps.
            #expect(waits.withLock { $0 } == [])
            try await expect(.unavailable, S3Backend(configuration), "--certificate")
            let byAddress = try #require(URL(string: "https://127.0.0.1:\(server.port)"))
            configuration = try S3Configuration(
                bucket: S3Server.bucket,
                endpoint: byAddress,
                credentials: S3Server.credentials
            )
            configuration.trustedCertificates = [server.certificate]
            try await expect(.unavailable, S3Backend(configuration), "another host name")
            let absent = server.folder.appending(path: "absent.pem")
            configuration.trustedCertificates = [absent]
            try await expect(.unavailable, S3Backend(configuration), "trusted certificates can't be read")
            try await expect(.unavailable, S3Backend(configuration), "Check “\(absent.path)”.")
        }

        @Test("Access to a bucket on another machine without TLS is refused")
        func plaintext() async throws {
            let url = try #require(URL(string: "http://storage.example.invalid"))
            let configuration = try S3Configuration(bucket: "bucket", endpoint: url, credentials: S3Server.credentials)
            try await expect(.notAllowed, S3Backend(configuration), "https")
        }

        @Test("A bucket's redirect isn't followed, and the error names the region that the server names")
        func redirects() async throws {
            let stranger = try FaultProxy(to: 9) { _, _ in .answer(404) }
            for status in [301, 302, 307, 308] {
                let proxy = try FaultProxy(to: 9) { _, _ in
                    .answer(status, headers: ["Location: http://localhost:\(stranger.port)/bucket"])
                }
                let url = try #require(URL(string: "http://localhost:\(proxy.port)"))
                let configuration = try S3Configuration(
                    bucket: "bucket",
                    endpoint: url,
                    credentials: S3Server.credentials
                )
                try await expect(.unavailable, S3Backend(configuration), "isn't followed")
                #expect(proxy.requests.allSatisfy { $0.contains("Authorization: AWS4-HMAC-SHA256") })
                #expect(!proxy.requests.contains { $0.contains(S3Server.secret) })
            }
            #expect(stranger.lines.isEmpty)
            let elsewhere = try FaultProxy(to: 9) { _, _ in .answer(301, headers: ["x-amz-bucket-region: eu-south-9"]) }
            let url = try #require(URL(string: "http://localhost:\(elsewhere.port)"))
            let configuration = try S3Configuration(bucket: "bucket", endpoint: url, credentials: S3Server.credentials)
            try await expect(.notAllowed, S3Backend(configuration), "in the region eu-south-9")
        }

        @Test("Access to a bucket with a wrong clock is an error that says so", arguments: [-7200.0, 7200])
        func clock(error: Double) async throws {
            let server = try await S3Server.shared(.seaweedFS)
            let signature = SignatureV4(credentials: S3Server.credentials, region: "us-east-1")
            let authentication = S3Authentication(signature: signature) { Date(timeIntervalSinceNow: error) }
            let location = S3Location(try server.configuration())
            let transport = HTTPTransport(
                HTTPSettings(origin: location.origin, name: "here") { _, _ in false },
                authentication
            )
            let response = try await transport.send(HTTPRequest(method: .GET, target: location.target()))
            let failure = try #require(S3Failure(response, now: Date(timeIntervalSinceNow: error)))
            let told = failure.error(at: .root, in: location)
            #expect(told.code == .unauthorized)
            #expect(told.message.contains("clock is wrong. It is 7"), "\(told)")
            #expect(told.message.contains(error < 0 ? "behind" : "ahead"), "\(told)")
        }

        @Test("A bucket reports the server's capabilities, and probes them by writing only when they are requested")
        func capabilities() async throws {
            for kind in S3ServerKind.plainInstalled {
                let server = try await S3Server.shared(kind)
                let proxy = try FaultProxy(to: server.port) { _, _ in .none }
                let backend = S3Backend(try server.configuration(port: proxy.port))
                let known = try await backend.knownCapabilities()
                #expect((known == nil) == (kind == .moto))
                _ = try await backend.list(.root)
                _ = try await backend.status(of: RemotePath("file"))
                _ = try await backend.read(RemotePath("file"))
                #expect(!proxy.lines.isEmpty)
                #expect(proxy.lines.allSatisfy { $0.hasPrefix("GET") || $0.hasPrefix("HEAD") }, "\(proxy.lines)")
                let capabilities = try await backend.capabilities()
                let common: RemoteCapabilities = [
                    .exclusiveCreate, .conditionalReplace, .atomicReplace, .consistentRead, .serverSideCopy,
                    .rangedRead, .contentTags,
                ]
                // The probe doesn't test whether an unknown server accepts parts of any size.
                #expect(capabilities == (kind == .moto ? common : common.union(.resumableWrite)))
                #expect(proxy.lines.contains { $0.hasPrefix("PUT") } == (kind == .moto))
                // The probe removes what it created, and doesn't run twice.
                let count = proxy.lines.count
                #expect(try await backend.capabilities() == capabilities)
                #expect(proxy.lines.count == count)
                let bytes = try await backend.perform(
                    .GET,
                    query: ["list-type": "2", "prefix": backend.location.prefix]
                ).bytes
                #expect(try ObjectList(bytes).objects == [])
            }
        }

        @Test(
            "A server's capabilities are all found although replies to probes are lost",
            .enabled(if: S3ServerKind.moto.isInstalled),
            arguments: [("created", 1...4), ("replaced", 3...6)]
        )
        func lostProbes(name: String, racers: ClosedRange<Int>) async throws {
            let server = try await S3Server.shared(.moto)
            let capabilities = try await S3Backend(server.configuration()).capabilities()
            let count = Locked(0)
            let proxy = try FaultProxy(to: server.port) { _, line in
                guard line.hasPrefix("PUT"), line.contains("/\(name)%201") else { return .none }
                // The replies to all four writers of a race, among them the winner.
                return count.withLock { count in
                    count += 1
                    return racers.contains(count) ? .loseReply : .none
                }
            }
            let backend = S3Backend(try server.configuration(port: proxy.port))
            #expect(try await backend.capabilities() == capabilities)
            #expect(count.withLock { $0 } >= 9)
        }

        @Test(
            "A bucket's probe detects whether the server enforces conditions",
            .enabled(if: S3ServerKind.moto.isInstalled),
            arguments: ["If-None-Match", "If-Match"]
        )
        func disproof(header: String) async throws {
            let server = try await S3Server.shared(.moto)
            // A server that doesn't know the header: it never sees it.
            let proxy = try FaultProxy(to: server.port, rewriting: { $0.replacing(header, with: "X-Unknown") }) {
                _,
                _ in .none
            }
            let backend = S3Backend(try server.configuration(port: proxy.port))
            let capabilities = try await backend.capabilities()
            #expect(capabilities.contains(.exclusiveCreate) == (header == "If-Match"))
            #expect(capabilities.contains(.conditionalReplace) == (header == "If-None-Match"))
            let path = try RemotePath("file")
            try await backend.write([1], to: path, when: .ifAbsent)
            await #expect(throws: RemoteError.self) { try await backend.write([2], to: path, when: .ifAbsent) }
            let tag = try #require(try await backend.status(of: path)?.tag)
            try await backend.write([2], to: path, when: .ifMatches(tag))
            await #expect(throws: RemoteError.self) { try await backend.write([3], to: path, when: .ifMatches(tag)) }
            #expect(try await backend.bytes(at: path) == [2])
        }
    }
}
