import Foundation
import RemoteStorage
import RemoteStorageHTTP
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageWebDAV

@Suite("The address of a WebDAV server", .timeLimit(.minutes(60)))
struct ServerAddressTests {
    @Test(
        "A server's address may be an IPv6 address, whose brackets requests keep",
        arguments: [
            ("http://[::1]:8080/dav", "http://[::1]:8080", "webdav://[::1]:8080/dav"),
            ("webdavs://[2001:DB8::1]/dav", "https://[2001:DB8::1]", "webdavs://[2001:db8::1]/dav"),
            ("https://host:444/dav", "https://host:444", "webdavs://host:444/dav"),
        ]
    )
    func brackets(url: String, origin: String, identity: String) throws {
        let configuration = try WebDAVConfiguration(url: try #require(URL(string: url)))
        let backend = WebDAVBackend(configuration)
        #expect(backend.identity == identity)
        #expect(configuration.settings(name: "").origin == origin)
    }

    @Test("A server of the tests has a port that the system gives to no connection, nor to another server")
    func ports() throws {
        let ports = try (0..<200).map { _ in try freePort() }
        #expect(ports.allSatisfy { $0 < 32_768 })
        #expect(Set(ports).count == ports.count)
    }

    @Test("A server's address is the same in capital letters, so that a redirect there is followed")
    func capitals() async throws {
        let port = Locked(0)
        let proxy = try FaultProxy(to: 9) { number, _ in
            number > 0
                ? .answer(404)
                : .answer(302, headers: ["Location: HTTP://LocalHost:\(port.withLock(\.self))/moved/"])
        }
        port.withLock { $0 = proxy.port }
        let url = try #require(URL(string: "http://localhost:\(proxy.port)/dav"))
        let backend = WebDAVBackend(try WebDAVConfiguration(url: url))
        let error = await #expect(throws: RemoteError.self) { try await backend.status(of: .root) }
        // That is the second answer, not a refusal to follow the first one.
        #expect(error?.code == .unavailable, "\(String(describing: error))")
        #expect(proxy.lines == ["PROPFIND /dav/ HTTP/1.1", "PROPFIND /moved/ HTTP/1.1"])
    }

    @Test(
        "A redirect that isn't followed names scheme and port, and the remedy for https is webdavs",
        arguments: [
            ("https://127.0.0.1/dav/", "redirects to https://127.0.0.1. ", "Use webdavs://127.0.0.1."),
            ("HTTPS://127.0.0.1:8443/dav/", "redirects to https://127.0.0.1:8443. ", "Use webdavs://127.0.0.1:8443."),
            (
                "http://127.0.0.1:9/dav/", "redirects to http://127.0.0.1:9. ",
                "If you trust http://127.0.0.1:9, use its URL."
            ),
            ("//[::1]:9/dav/", "redirects to http://[::1]:9. ", "If you trust http://[::1]:9, use its URL."),
            (
                "https://other.example/", "redirects to https://other.example. ",
                "If you trust https://other.example, use its URL."
            ),
        ]
    )
    func refusedRedirect(location: String, target: String, remedy: String) async throws {
        let proxy = try FaultProxy(to: 9) { _, _ in .answer(302, headers: ["Location: \(location)"]) }
        let url = try #require(URL(string: "http://127.0.0.1:\(proxy.port)/dav"))
        let backend = WebDAVBackend(try WebDAVConfiguration(url: url))
        let error = await #expect(throws: RemoteError.self) { try await backend.status(of: .root) }
        let message = try #require(error).message
        #expect(message.contains(target) && message.hasSuffix(remedy), "\(message)")
        // The same server with TLS is no login page, which goes away by itself.
        let mayBeLoginPage = remedy.hasPrefix("If you trust")
        #expect(message.contains("login page") == mayBeLoginPage, "\(message)")
        #expect(error?.code == (mayBeLoginPage ? .unavailable : .notAllowed))
        #expect(proxy.lines.count == 1)
    }
}
