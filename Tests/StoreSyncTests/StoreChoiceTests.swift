import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The choice of the store to download", .timeLimit(.minutes(60)))
struct StoreChoiceTests {
    private static func fixture(isSealed: Bool) throws -> Fixture {
        try Fixture(password: isSealed ? "correct horse battery staple" : nil)
    }

    /// The path of a file of an upload: of its store, for example.
    private static func file(_ suffix: String, of fixture: Fixture) throws -> String {
        try #require(try fixture.files().keys.first { $0.hasSuffix(suffix) && $0.contains("/1-") })
    }

    private static func manifest(_ fixture: Fixture) throws -> String {
        try #require(try fixture.files().keys.first { $0.contains("/manifest-1-") })
    }

    @Test(
        "An upload with a file that is larger than its manifest says is tampered, and push --whole replaces it",
        arguments: [true, false],
        WholeStoreFile.allCases
    )
    func tooLarge(isSealed: Bool, file: WholeStoreFile) async throws {
        let fixture = try Self.fixture(isSealed: isSealed)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.write("one")
        _ = try await a.push().value
        let path = try Self.file("/\(file.rawValue)", of: fixture)
        let content = try #require(try fixture.files()[path])
        try fixture.put(content + [0], at: path)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(
            error?.code == .tampered && error?.message.hasPrefix("\(path) on the remote") == true,
            "\(error as Any)"
        )
        _ = try await a.push(whole: true).value
        #expect(try await b.pull().value.generation == 2)
    }

    @Test("An upload with a file that is too small hasn't arrived, and the error names it, with what to do")
    func tooSmall() async throws {
        let fixture = try Self.fixture(isSealed: true)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.write("one")
        let client = try await a.push().value.client
        let path = try Self.file("/\(WholeStoreFile.store.rawValue)", of: fixture)
        let content = try #require(try fixture.files()[path])
        try fixture.put(content.dropLast(), at: path)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(error?.code == .noUploadedStore)
        #expect(error?.message.hasPrefix("Generation 1 of client \(client) hasn't arrived completely.") == true)
        #expect(error?.message.contains("push --whole") == true, "\(error as Any)")
        _ = try await a.push(whole: true).value
        #expect(try await b.pull().value.generation == 2)
    }

    @Test("The warning of a damaged manifest doesn't say that an older store is used when a newer one is")
    func damagedManifest() async throws {
        let fixture = try Self.fixture(isSealed: true)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.write("one")
        _ = try await a.push().value
        try a.write("two")
        _ = try await a.push(whole: true).value
        let path = try Self.manifest(fixture)
        var content = try #require(try fixture.files()[path])
        content[content.count - 1] ^= 1
        try fixture.put(content, at: path)
        let pulled = try await b.pull().value
        #expect(pulled.generation == 2)
        let warning = try #require(pulled.warnings.first)
        #expect(warning.hasSuffix("or is damaged. It isn't used."), "\(warning)")
    }

    @Test("A document without a store, or without a client's store, is an error that says that one may be arriving")
    func noStore() async throws {
        let fixture = try Self.fixture(isSealed: true)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let client = try await a.registerDocument().value.application.client
        for wanted in [nil, client] {
            let error = await #expect(throws: StoreSyncError.self) { try await b.pull(from: wanted).value }
            #expect(error?.code == .noUploadedStore)
            for part in ["or it is still arriving", "pull again later"] {
                #expect(error?.message.contains(part) == true, "\(error as Any)")
            }
        }
    }

    @Test("A file that can't be read may be a faulty answer, so its error says to try again before it is replaced")
    func faultyAnswer() async throws {
        let fixture = try Self.fixture(isSealed: false)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        _ = try await a.register().value
        let path = "\(fixture.hierarchy.registration)"
        let content = try #require(try fixture.files()[path])
        try fixture.put(content.prefix(content.count / 2), at: path)
        let error = await #expect(throws: StoreSyncError.self) { try await b.register().value }
        #expect(error?.code == .corrupt && error?.message.contains("Try again. If it stays so,") == true)
        let other = StoreSyncError.notAsUploaded(fixture.hierarchy.registration)
        #expect(other.code == .corrupt && other.message.contains("Try again. If it stays so,"))
    }
}
