import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ServerFixtures
import Testing
import WebDAVServers

@testable import RemoteStorageWebDAV

extension WebDAVTests {
    @Suite("Access to a WebDAV share", .serialized)
    struct AccessTests {
        private static let secret = "correct horse"

        @Test(
            "A share refuses access without the right password, and no error contains the password",
            arguments: [
                ServerKind.apache, .apacheDigest, .lighttpd, .nginx, .rclone, .apacheTLS,
            ].filter(\.isInstalled)
        )
        func passwords(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            for credentials in [
                nil, WebDAVCredentials(user: "user", password: "wrong"), WebDAVCredentials(user: "x", password: ""),
            ] {
                let backend = WebDAVBackend(try share.configuration(credentials: credentials))
                for request in Self.requests {
                    do {
                        try await request(backend)
                        Issue.record("\(kind) accepted wrong credentials")
                    } catch let error as RemoteError {
                        #expect(error.code == .unauthorized, "\(error)")
                        #expect(!"\(error)".contains("wrong"), "\(error)")
                    }
                }
            }
            #expect(try await share.backend().list(.root) == [])
        }

        private static let requests: [@Sendable (WebDAVBackend) async throws -> Void] = [
            { _ = try await $0.status(of: .root) }, { _ = try await $0.list(.root) },
            { _ = try await $0.read(RemotePath("file")) }, { _ = try await $0.capabilities() },
            { try await $0.write([1], to: RemotePath("file"), when: .always) },
            { try await $0.remove(RemotePath("file")) }, { try await $0.createDirectory(at: RemotePath("d")) },
            { try await $0.move(RemotePath("file"), to: RemotePath("d")) },
        ]

        @Test(
            "Digest authentication never sends the password, and sends no credentials before the server asks",
            .enabled(if: ServerKind.apacheDigest.isInstalled)
        )
        func digest() async throws {
            let share = try await WebDAVShare(on: .apacheDigest)
            let proxy = try FaultProxy(to: share.port) { _, _ in .none }
            let backend = WebDAVBackend(try share.configuration(port: proxy.port))
            try await backend.write([1, 2, 3], to: RemotePath("a b/ü"), when: .ifAbsent)
            #expect(try await backend.bytes(at: RemotePath("a b/ü")) == [1, 2, 3])
            let heads = proxy.requests
            #expect(!heads[0].contains("Authorization"))
            #expect(heads.contains { $0.contains("Authorization: Digest") })
            let basic = Data("user:\(Self.secret)".utf8).base64EncodedString()
            #expect(!heads.contains { $0.contains(basic) || $0.contains(Self.secret) || $0.contains("Basic") })
        }

        /// Returns a proxy that answers each request with the next of these nonces as a challenge, or with success for `nil`.
        private static func digestServer(_ nonces: [String?]) throws -> FaultProxy {
            try FaultProxy(to: 9) { number, _ in
                guard number < nonces.count else { return .answer(500) }
                guard let nonce = nonces[number] else { return .answer(204) }
                return .answer(
                    401,
                    headers: [#"WWW-Authenticate: Digest realm="r", nonce="\#(nonce)", qop="auth", algorithm=MD5"#]
                )
            }
        }

        private static func transport(to proxy: FaultProxy) async throws -> any HTTPSending {
            let url = try #require(URL(string: "http://127.0.0.1:\(proxy.port)/"))
            let credentials = WebDAVCredentials(user: "user", password: secret)
            return await WebDAVBackend(try WebDAVConfiguration(url: url, credentials: credentials)).transport
        }

        @Test("A server that forgets its nonces is answered again")
        func forgottenNonces() async throws {
            let proxy = try Self.digestServer(["one", nil, "two", nil, nil])
            let transport = try await Self.transport(to: proxy)
            for _ in 0..<3 {
                #expect(try await transport.send(HTTPRequest(method: .DELETE, target: "/")).status == 204)
            }
            let nonces = proxy.requests.map { $0.firstMatch(of: /nonce="(\w+)"/).map { String($0.1) } }
            #expect(nonces == [nil, "one", "one", "two", "two"])
        }

        @Test("A wrong password is sent once if the server asks for a digest, whatever nonces it offers")
        func wrongDigest() async throws {
            let proxy = try Self.digestServer(["one", "two", "three"])
            let transport = try await Self.transport(to: proxy)
            let error = await #expect(throws: RemoteError.self) {
                try await transport.send(HTTPRequest(method: .DELETE, target: "/"))
            }
            #expect(error?.code == .unauthorized && proxy.requests.count == 2)
        }

        @Test("A server that asks for a digest first, and then for the password, never gets the password")
        func downgrade() async throws {
            let proxy = try FaultProxy(to: 9) { number, _ in
                .answer(
                    401,
                    headers: [
                        number < 1
                            ? #"WWW-Authenticate: Digest realm="r", nonce="n", qop="auth""#
                            : #"WWW-Authenticate: Basic realm="r""#
                    ]
                )
            }
            let url = try #require(URL(string: "http://127.0.0.1:\(proxy.port)/"))
            let credentials = WebDAVCredentials(user: "user", password: Self.secret)
            let backend = WebDAVBackend(try WebDAVConfiguration(url: url, credentials: credentials))
            await #expect(throws: RemoteError.self) { try await backend.list(.root) }
            #expect(!proxy.requests.contains { $0.contains("Basic") })
            #expect(proxy.requests.count == 2)
        }

        @Test("Credentials are never sent in the clear to another machine")
        func plaintext() async throws {
            let credentials = WebDAVCredentials(user: "user", password: Self.secret)
            let url = try #require(URL(string: "http://share.example.invalid/dav"))
            let backend = WebDAVBackend(try WebDAVConfiguration(url: url, credentials: credentials))
            do {
                _ = try await backend.list(.root)
                Issue.record("credentials were sent in the clear")
            } catch let error as RemoteError {
                #expect(error.code == .notAllowed)
                #expect(error.message.contains("https"))
            }
            #expect(
                !"\(credentials)\(credentials.debugDescription)\(String(reflecting: credentials))".contains(Self.secret)
            )
            var dumped = ""
            dump(try WebDAVConfiguration(url: url, credentials: credentials), to: &dumped)
            #expect(!dumped.contains(Self.secret) && dumped.contains("user"))
        }

        @Test(
            "A share can't be configured with a URL that isn't valid for a share",
            arguments: [
                "ftp://host/path", "https:///path", "https://user:password@host/", "https://host/?query",
                "https://host/#fragment",
                "file:///path",
            ]
        )
        func urls(string: String) throws {
            let url = try #require(URL(string: string))
            let error = try #require(throws: RemoteError.self) { try WebDAVConfiguration(url: url) }
            #expect(error.code == .invalidPath)
            #expect(!error.message.contains("password@"))
        }

        @Test("A share has the same identity for all its URLs")
        func identity() throws {
            let ways = [
                "https://Host.example/a%20b", "https://host.example:443/a%20b/", "webdavs://user@host.example/a%20b//",
            ]
            let identities = try ways.map { way in
                WebDAVBackend(try WebDAVConfiguration(url: try #require(URL(string: way)))).identity
            }
            #expect(Set(identities) == ["webdavs://host.example/a%20b"])
        }

        @Test(
            "Access to a missing share or server is an error, and creates nothing",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func missing() async throws {
            let share = try await WebDAVShare(on: .apache)
            var url = share.url
            url.append(path: "absent")
            var configuration = try WebDAVConfiguration(url: url, credentials: WebDAVShare.credentials)
            configuration.retries = .none
            let backend = WebDAVBackend(configuration)
            for request in Self.requests {
                do {
                    try await request(backend)
                    Issue.record("a missing share answered")
                } catch let error as RemoteError {
                    #expect(error.code == .unavailable, "\(error)")
                }
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: share.folder.path).isEmpty)
            let closedPort = try freePort()
            configuration = try WebDAVConfiguration(url: try #require(URL(string: "http://127.0.0.1:\(closedPort)/")))
            configuration.retries = .none
            let unreachable = WebDAVBackend(configuration)
            for request in Self.requests {
                do {
                    try await request(unreachable)
                    Issue.record("a missing server answered")
                } catch let error as RemoteError {
                    #expect(error.code == .unavailable, "\(error)")
                }
            }
        }

        @Test(
            "Access to a share by TLS requires a trusted certificate",
            .enabled(if: ServerKind.apacheTLS.isInstalled)
        )
        func untrusted() async throws {
            let share = try await WebDAVShare(on: .apacheTLS)
            var configuration = try share.configuration()
            configuration.trustedCertificates = []
            configuration.retries = .none
            let backend = WebDAVBackend(configuration)
            let error = await #expect(throws: RemoteError.self) { try await backend.list(.root) }
            #expect(error?.message.contains("isn't trusted") == true, "\(String(describing: error))")
        }
    }
}
