import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A damaged remote can be repaired", .timeLimit(.minutes(60)))
struct MendingTests {
    private static let password = "correct horse battery staple"

    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device

        /// Pushes a sealed store as a whole copy, and then as a delta if `isDelta` is set.
        init(isDelta: Bool) async throws {
            fixture = try Fixture(password: password)
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            var generator = SplitMix64(seed: 1)
            try RowStore.insert(40, into: a.store, &generator)
            _ = try await a.push().value
            if isDelta {
                try RowStore.update(1, in: a.store, &generator)
                let upload = try await a.push().value
                #expect(upload.storedBytes < upload.bytes / 4)
            }
            _ = try await b.pull().value
        }

        func files(_ suffix: String) throws -> [String] {
            try fixture.files().keys.filter { $0.hasSuffix(suffix) }.sorted()
        }

        /// Expects that everything is sound, and that a new device pulls the store of `a`.
        func expectMended(_ comment: String) async throws {
            #expect(try await a.verify().value.problems.isEmpty, "\(comment)")
            let reader = try fixture.device("reader \(comment)")
            _ = try await reader.pull().value
            #expect(try RowStore.rows(in: reader.store) == RowStore.rows(in: a.store), "\(comment)")
        }
    }

    @Test(
        "A push of an unchanged store uploads it again if one of its files is missing or has another length",
        arguments: [false, true]
    )
    func unchanged(isDelta: Bool) async throws {
        let scene = try await Scene(isDelta: isDelta)
        #expect(try await scene.a.push().value.isUnchanged)
        for number in 0..<2 {
            let store = try #require(try scene.files("WholeStore.ticdsync").first)
            let former = try #require(try scene.fixture.files()[store])
            try scene.fixture.put(number == 0 ? nil : former.dropLast(), at: store)
            let upload = try await scene.a.push().value
            #expect(!upload.isUnchanged && upload.storedBytes > upload.bytes / 4, "a whole copy, not a delta")
            try await scene.expectMended("\(number)")
        }
    }

    @Test("After verify has found damage that no listing shows, the next push of that store is a whole copy")
    func verified() async throws {
        let scene = try await Scene(isDelta: true)
        let store = try #require(try scene.files("WholeStore.ticdsync").first)
        var bytes = try #require(try scene.fixture.files()[store])
        bytes[bytes.count / 2] ^= 1
        try scene.fixture.put(bytes, at: store)
        #expect(try await scene.a.push().value.isUnchanged, "a listing doesn't show the damage")
        #expect(try await !scene.a.verify().value.problems.isEmpty)
        let upload = try await scene.a.push().value
        #expect(!upload.isUnchanged && upload.storedBytes > upload.bytes / 4)
        try await scene.expectMended("verified")
    }

    @Test("Where tags are derived from content, a file of the same length with another tag isn't relied on")
    func tags() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend(capabilities: .all)
        let a = try fixture.device("a", backend: backend)
        let upload = try await a.push(adding: "one")
        #expect(try await a.push().value.isUnchanged)
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let name = try #require(
            try await PublishedStores.list(DefaultHooks(backend: backend), hierarchy).published.first
        )
        let path = WholeStoreFile.store.path(in: hierarchy.upload(name))
        var bytes = try #require(try await backend.bytes(at: path))
        bytes[bytes.count / 2] ^= 1
        try await backend.write(bytes, to: path, when: .always)
        let again = try await a.push().value
        #expect(!again.isUnchanged && again.generation == upload.generation + 1)
        let reader = try fixture.device("reader", backend: backend)
        _ = try await reader.pull().value
        #expect(try reader.notes() == ["one"])
    }

    @Test("A push uploads a whole copy if that is requested")
    func whole() async throws {
        let scene = try await Scene(isDelta: true)
        let upload = try await scene.a.push(whole: true).value
        #expect(!upload.isUnchanged && upload.generation == 3 && upload.storedBytes > upload.bytes / 4)
        try await scene.expectMended("whole")
    }

    @Test("A pull of a damaged upload names an intact upload, which can be pulled by that name")
    func olderUpload() async throws {
        let fixture = try Fixture(password: Self.password)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let client = try await a.push(adding: "one").client
        try a.write("two")
        _ = try await a.push(whole: true).value
        let newest = try #require(
            try fixture.files().keys.filter { $0.hasSuffix("/WholeStore.ticdsync") && $0.contains("/2-") }.first
        )
        var bytes = try #require(try fixture.files()[newest])
        bytes[bytes.count - 20] ^= 1
        try fixture.put(bytes, at: newest)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(error?.code == .tampered || error?.code == .corrupt)
        #expect(error?.message.contains("--from \(client) --generation 1") == true, "\(String(describing: error))")
        #expect(try await b.pull(from: client, generation: 1).value.generation == 1)
        #expect(try b.notes() == ["one"])
    }
}
