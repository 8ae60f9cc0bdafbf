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
        try await a.push(adding: "one")
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
        let client = try await a.push(adding: "one").client
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

    /// Cuts a file off after so many bytes, or changes its last byte if `left` is `nil`.
    private static func damage(_ path: String, leaving left: Int?, in fixture: Fixture) throws {
        var content = try #require(try fixture.files()[path])
        if let left {
            content = Data(content.prefix(left))
        } else {
            content[content.count - 1] ^= 1
        }
        try fixture.put(content, at: path)
    }

    @Test("The warning of a damaged manifest doesn't say that an older store is used when a newer one is")
    func damagedManifest() async throws {
        let fixture = try Self.fixture(isSealed: true)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        try a.write("two")
        _ = try await a.push(whole: true).value
        try Self.damage(try Self.manifest(fixture), leaving: nil, in: fixture)
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

    @Test(
        "The error of a damaged store names push --whole, which replaces it although the store is unchanged",
        arguments: [true, false]
    )
    func damagedStore(isSealed: Bool) async throws {
        let fixture = try Self.fixture(isSealed: isSealed)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        let path = try Self.file("/\(WholeStoreFile.store.rawValue)", of: fixture)
        try Self.damage(path, leaving: nil, in: fixture)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(error?.message.contains("push the store with --whole") == true, "\(error as Any)")
        let problems = try await b.verify().value.problems
        #expect(problems.map(\.path) == [path])
        #expect(problems.allSatisfy { $0.message.contains("push the store with --whole") }, "\(problems)")
        #expect(try await a.push().value.isUnchanged)
        _ = try await a.push(whole: true).value
        #expect(try await b.pull().value.generation == 2)
    }

    @Test(
        "The error of a manifest that is changed, cut off or emptied names push --whole, which replaces it",
        arguments: [nil, 150, 0] as [Int?]
    )
    func unreadableManifest(left: Int?) async throws {
        let fixture = try Self.fixture(isSealed: true)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        try Self.damage(try Self.manifest(fixture), leaving: left, in: fixture)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(error?.code == .tampered)
        #expect(error?.message.contains("push the store with --whole") == true, "\(error as Any)")
        _ = try await a.push(whole: true).value
        #expect(try await b.pull().value.generation == 2)
    }

    @Test(
        "The error of a document's info that is changed, cut off or emptied says how to give the document up",
        arguments: [(true, nil), (true, 150), (true, 0), (false, 150), (false, 0)] as [(Bool, Int?)]
    )
    func unreadableInfo(isSealed: Bool, left: Int?) async throws {
        let fixture = try Self.fixture(isSealed: isSealed)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        let path = "\(fixture.hierarchy.document(fixture.document).documentInfo)"
        try Self.damage(path, leaving: left, in: fixture)
        let error = await #expect(throws: StoreSyncError.self) { try await a.removeDocument().value }
        #expect(error?.code == (isSealed ? .tampered : .corrupt))
        #expect(try await a.verify().value.problems.contains { $0.message == error?.message })
        for part in ["from a backup", "remove exactly that file", "storesync remove document", "--recreate"] {
            #expect(error?.message.contains(part) == true, "\(error as Any)")
        }
        try fixture.put(nil, at: path)
        _ = try await a.removeDocument().value
        _ = try await a.push(recreates: true).value
        _ = try await b.pull().value
        #expect(try b.notes() == ["one"])
    }

    @Test(
        "The problem of an integrity key that is changed, cut off or emptied names a backup",
        arguments: [nil, 150, 0] as [Int?]
    )
    func unreadableKey(left: Int?) async throws {
        let fixture = try Self.fixture(isSealed: true)
        let a = try fixture.device("a")
        let key = try await a.registerDocument().value.integrityKey
        let file = try fixture.hierarchy.document(fixture.document).integrityKey(key)
        try Self.damage("\(file)", leaving: left, in: fixture)
        let problems = try await a.verify().value.problems
        #expect(problems.map(\.path) == ["\(file)"])
        #expect(problems.allSatisfy { $0.message.lowercased().contains("restore it from a backup") }, "\(problems)")
    }
}
