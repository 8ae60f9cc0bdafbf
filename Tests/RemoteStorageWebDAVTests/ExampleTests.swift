import RemoteStorage
import RemoteStorageWebDAV
import Testing
import WebDAVServers

extension WebDAVTests {
    @Suite("The documentation's WebDAV example", .serialized)
    struct ExampleTests {
        @Test("The documentation's WebDAV example lists a share", arguments: ServerKind.plainInstalled)
        func share(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            let url = share.url
            // DOC: share
            let configuration = try WebDAVConfiguration(
                url: url,
                credentials: WebDAVCredentials(user: "user", password: "correct horse")
            )
            let backend = WebDAVBackend(configuration)
            for item in try await backend.list(.root) ?? [] { print(item.name, item.size) }
            // DOC: end
            #expect(try await backend.list(.root) == [])
        }
    }
}
