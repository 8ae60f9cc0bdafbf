import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("A store that belongs to several documents", .timeLimit(.minutes(60)))
struct SeveralDocumentsTests {
    /// A device with a store that it synchronizes with one document after the other; and another device that has both.
    private func devices(_ fixture: Fixture, with other: RemoteIdentifier) async throws -> (Device, Device) {
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT, kind TEXT)")
        try a.execute("INSERT INTO note VALUES (1, 'milk', 'one litre', 'errand')")
        for device in [a, a.with(document: other), b] { _ = try await device.synchronize().value }
        let joining = b.with(document: other)
        _ = try await joining.synchronize(SynchronizationRequest(url: b.store, takenSide: .both)).value
        return (a, b)
    }

    /// A device with two stores, each of which it synchronizes with a document.
    private func twoStores(_ fixture: Fixture) async throws -> (Device, Device) {
        let a = try fixture.device("a")
        let journal = try RemoteIdentifier("journal")
        let other = a.with(document: journal, store: fixture.folder.appending(path: "journal.sqlite"))
        for device in [a, other] {
            try await device.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY)")
        }
        return (a, other)
    }

    /// Changes a column on both devices, and merges the edits in one document.
    private func contend(_ column: String, _ a: Device, _ b: Device) async throws {
        for device in [a, b] { try device.execute("UPDATE note SET \(column) = 'of \(device.name)'") }
        for device in [a, b] { _ = try await device.synchronize().value }
    }

    private struct Unexpected: Error {}

    /// The warnings of two devices that begin and join a document with their stores, then a second one, which the last one
    /// synchronizes once more.
    private func warnings(_ schema: String, rules: SyncRules? = nil) async throws -> [[String]] {
        let fixture = try Fixture()
        let other = try RemoteIdentifier("other")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(schema)
        var warnings: [[String]] = []
        for device in [a, b, a.with(document: other), b.with(document: other), b.with(document: other)] {
            let isJoining = device.document == other && device.name == "b"
            let request = SynchronizationRequest(url: device.store, takenSide: isJoining ? .both : nil, rules: rules)
            warnings.append(try await device.synchronize(request).value.warnings)
        }
        return warnings
    }

    @Test("A device that joins a second document with its store is warned once if rows may multiply")
    func warning() async throws {
        let warnings = try await warnings(
            "CREATE TABLE note (id INTEGER PRIMARY KEY); CREATE TABLE draft (title); CREATE TABLE tag (name TEXT PRIMARY KEY)"
        )
        #expect(warnings.map(\.count) == [0, 0, 0, 1, 0], "\(warnings)")
        let warning = try #require(warnings[3].first)
        #expect(warning.contains("with another document, too: notes."))
        #expect(
            warning.contains(
                "multiply without end, since they have no natural key: draft, note. On all devices but one"
            )
        )
    }

    @Test("A device that joins a second document isn't warned if all tables have natural or meaningful keys")
    func noWarning() async throws {
        let rules = SyncRules(meaningfulKeys: ["year"])
        let warnings = try await warnings(
            "CREATE TABLE year (number INTEGER PRIMARY KEY); CREATE TABLE tag (name TEXT PRIMARY KEY)",
            rules: rules
        )
        #expect(warnings.joined().isEmpty, "\(warnings)")
    }

    @Test("A device that joins a second document isn't warned of a document that it has removed")
    func noWarningOfRemovedDocument() async throws {
        let fixture = try Fixture()
        let other = try RemoteIdentifier("other")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY)")
        for device in [a, b, a.with(document: other)] { _ = try await device.synchronize().value }
        _ = try await b.removeDocument().value
        let request = SynchronizationRequest(url: b.store, takenSide: .both)
        let warnings = try await b.with(document: other).synchronize(request).value.warnings
        #expect(warnings.isEmpty, "\(warnings)")
    }

    @Test("Each document has its own conflicts and records its own changes")
    func conflicts() async throws {
        let fixture = try Fixture()
        let other = try RemoteIdentifier("other")
        let (a, b) = try await devices(fixture, with: other)
        try await contend("title", a, b)
        try await contend("body", a.with(document: other), b.with(document: other))
        let delegate = await AppDelegate()
        let manager = b.manager(delegate)
        for (document, elsewhere, column) in [(b.document, other, "title"), (other, b.document, "body")] {
            let log = manager.document(document).conflicts(ofStoreAt: b.store)
            let entry = try #require(try await log.entries().first { $0.conflict.lost[column] != nil })
            // One of both edits is the later one.
            guard case .value(.text(let lost)) = entry.conflict.lost[column] else { throw Unexpected() }
            let named = ConflictLog(ofStoreAt: b.store, state: b.state, document: document)
            #expect(try await named.entries() == log.entries())
            let former = try b.query("SELECT \(column) FROM note")
            try await log.restore(entry.number)
            #expect(try b.query("SELECT \(column) FROM note") == [String(decoding: lost, as: UTF8.self)])
            #expect(try b.query("SELECT \(column) FROM note") != former)
            #expect(try await manager.document(document).recordChanges(ofStoreAt: b.store) == 0, "it's recorded")
            #expect(try await manager.document(elsewhere).recordChanges(ofStoreAt: b.store) > 0)
        }
        let any = ConflictLog(ofStoreAt: b.store, state: b.state)
        let error = await #expect(throws: StoreSyncError.self) { try await any.entries() }
        #expect(error?.code == .documentNotFound && error?.message.contains("notes, other") == true)
        let absent = ConflictLog(ofStoreAt: b.store, state: b.state, document: try RemoteIdentifier("absent"))
        #expect(await code { try await absent.entries() } == .storeNotFound)
    }

    @Test("Documents of one name at two remotes synchronize independently, and edits go from one to the other")
    func twoRemotes() async throws {
        let fixture = try Fixture()
        let folder = fixture.folder.appending(path: "elsewhere")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let elsewhere = LocalFolderBackend(root: folder)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let (gateway, c) = (a.with(backend: elsewhere), try fixture.device("c", backend: elsewhere))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        for device in [a, gateway, b, c] { _ = try await device.synchronize().value }
        try b.execute("INSERT INTO note (title) VALUES ('of b')")
        for device in [b, a, gateway, c] { _ = try await device.synchronize().value }
        try c.execute("UPDATE note SET title = 'of c'")
        for device in [c, gateway, a, b] { _ = try await device.synchronize().value }
        #expect(try b.query("SELECT title FROM note") == ["of c"])
        for device in [a, gateway] { #expect(try await device.synchronize().value.publishedBytes == 0) }
        let any = ConflictLog(ofStoreAt: a.store, state: a.state)
        #expect(await code { try await any.entries() } == .documentNotFound)
    }

    @Test(
        "A damaged replica keeps no other store's conflicts from being read, and is named",
        arguments: [Data(), Data("nothing that SQLite can read".utf8), Data(count: 4096)]
    )
    func damagedReplica(content: Data) async throws {
        let fixture = try Fixture()
        let (a, other) = try await twoStores(fixture)
        let former = Set(a.state.replicas())
        let replica = try #require(try a.state.replicas(of: a.key, document: a.document.rawValue).first)
        #expect(former.count == 2 && former.map(\.lastPathComponent).contains(replica.lastPathComponent))
        try content.write(to: replica)
        #expect(try await ConflictLog(ofStoreAt: other.store, state: a.state).entries().isEmpty)
        let damaged = ConflictLog(ofStoreAt: a.store, state: a.state)
        let error = await #expect(throws: StoreSyncError.self) { try await damaged.entries() }
        #expect(error?.code == .corrupt && error?.message.contains(replica.lastPathComponent) == true)
        #expect(error?.message.contains("--rebuild") == true)
        _ = try await a.synchronize(request(a) { $0.rebuildsReplica = true }).value
        #expect(try await damaged.entries().isEmpty)
    }

    private func request(
        _ device: Device,
        _ change: (inout SynchronizationRequest) -> Void
    ) -> SynchronizationRequest {
        var request = SynchronizationRequest(url: device.store)
        change(&request)
        return request
    }

    @Test("A replica whose writer died in a transaction isn't damaged")
    func hotJournal() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY)")
        let replica = try #require(a.state.replicas().first)
        let program = try SQLProgram(opening: replica)
        // With such a small cache, the changed pages are written to the file before the commit.
        try program.sql("PRAGMA cache_size = 2")
        try program.sql("BEGIN")
        try program.sql("CREATE TABLE filler AS SELECT hex(zeroblob(2000)) FROM sqlite_schema, sqlite_schema AS other")
        program.kill()
        #expect(FileManager.default.fileExists(atPath: replica.path + "-journal"))
        #expect(try await ConflictLog(ofStoreAt: a.store, state: a.state).entries().isEmpty)
    }

    @Test("With a damaged replica, a conflict is restored only in the document that is named")
    func damagedReplicaOfSeveral() async throws {
        let fixture = try Fixture()
        let (_, b) = try await devices(fixture, with: RemoteIdentifier("other"))
        let replica = try #require(try b.state.replicas(of: b.key, document: b.document.rawValue).first)
        try Data("damaged".utf8).write(to: replica)
        let any = ConflictLog(ofStoreAt: b.store, state: b.state)
        #expect(await code { try await any.entries() } == .corrupt)
        let delegate = await AppDelegate()
        let other = b.manager(delegate).document(try RemoteIdentifier("other"))
        #expect(try await other.conflicts(ofStoreAt: b.store).entries().isEmpty)
    }

    @Test(
        "A device that is set up with another application has no replica of the former one",
        arguments: [true, false]
    )
    func otherApplication(isCreatedByOther: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY)")
        _ = try await b.removeApplication().value
        if isCreatedByOther { _ = try await fixture.device("c").register().value }
        #expect(a.state.replicas().count == 1)
        _ = try await a.supervisor.add(a.registration(registersAgain: true)).value
        #expect(a.state.replicas().isEmpty)
    }

    @Test("A client that was removed and has merged its store since creates a removed document again with it")
    func recreationByARemovedClient() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.pair(
            sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note (title) VALUES ('a')"
        )
        let client = try RemoteIdentifier(a.client())
        _ = try await b.remove(client, from: fixture.document).value
        try a.execute("INSERT INTO note (title) VALUES ('later')")
        for device in [a, b] { _ = try await device.synchronize().value }
        _ = try await b.removeDocument().value
        // The delegate doesn't agree to create it again.
        await #expect(throws: CancellationError.self) { try await a.synchronize().value }
        _ = try await a.push(recreates: true).value
        _ = try await a.synchronize().value
        #expect(try a.query("SELECT title FROM note") == ["a", "later"])
    }

    @Test("A removed document or application leaves no replica, and a document that is created again has one")
    func removal() async throws {
        let fixture = try Fixture()
        let (a, other) = try await twoStores(fixture)
        #expect(a.state.replicas().count == 2)
        _ = try await other.removeDocument().value
        #expect(a.state.replicas() == [try #require(a.state.replicas().first)])
        #expect(try await ConflictLog(ofStoreAt: a.store, state: a.state).entries().isEmpty)

        let b = try fixture.device("b")
        _ = try await b.synchronize().value
        _ = try await a.removeDocument().value
        #expect(a.state.replicas().isEmpty)
        _ = try await a.push(recreates: true).value
        _ = try await a.synchronize().value
        #expect(b.state.replicas().count == 1)
        let pulled = b.with(store: fixture.folder.appending(path: "again.sqlite"))
        _ = try await pulled.pull().value
        _ = try await pulled.synchronize().value
        #expect(b.state.replicas().count == 1)

        _ = try await a.removeApplication().value
        #expect(a.state.replicas().isEmpty)
        #expect(try a.query("SELECT count(*) FROM note") == ["0"])
    }
}
