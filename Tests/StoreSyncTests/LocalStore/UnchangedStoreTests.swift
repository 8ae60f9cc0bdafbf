import Foundation
import GRDB
import Operations
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync

@Suite("A database that wasn't changed since the last push", .timeLimit(.minutes(60)))
struct UnchangedStoreTests {
    /// How long after the last write a device pushes, in seconds, by its own clock: then it trusts the status of the files.
    private static let pause: TimeInterval = 10

    private let fixture: Fixture
    private let device: Device

    init() throws {
        fixture = try Fixture(password: "correct horse")
        device = try fixture.device("a", clockError: Self.pause)
    }

    /// The status that the device has recorded of the store's files.
    private var recorded: StoreRecord? {
        get throws { try device.state.stores(of: device.documentKey).first }
    }

    /// Appends so much that the file grows: within one tick of the file system's clock, its times stay the same.
    private func grow() throws {
        let queue = try DatabaseQueue(path: device.store.path)
        try queue.inDatabase { try $0.execute(sql: "INSERT INTO note VALUES (hex(randomblob(50000)))") }
        try queue.close()
    }

    /// Keeps all other connections from reading the store, and changes nothing.
    private func lock() throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        // In WAL mode it locks the file only if it's set before the connection's first access.
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
        let app = try DatabaseQueue(path: device.store.path, configuration: configuration)
        try app.inDatabase { db in
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM note")
            if try String.fetchOne(db, sql: "PRAGMA journal_mode") != "wal" { try db.execute(sql: "BEGIN EXCLUSIVE") }
        }
        return app
    }

    @Test(
        "An unchanged database isn't read: it's pushed although another program has locked it",
        arguments: ["wal", "delete", "truncate", "persist"]
    )
    func locked(mode: String) async throws {
        try device.write("one")
        for _ in 0..<20 { try grow() }
        try Store.setJournalMode(mode, of: device.store)
        for isDelta in [false, true] {
            if isDelta { try grow() }
            let sent = try await device.push().value
            #expect(sent.storedBytes > 0 && (sent.storedBytes < sent.bytes / 2) == isDelta)
            // The app has closed the store, so its log is in the file.
            let app = try lock()
            let push = try await device.push().value
            #expect(push.isUnchanged)
            #expect(push.bytes == Int64(try Data(contentsOf: device.store).count))
            if mode != "wal" { try app.inDatabase { try $0.execute(sql: "ROLLBACK") } }
            try app.close()
        }
    }

    @Test(
        "A database is read if it was replaced, or written to without SQLite, while it was sent",
        arguments: [false, true]
    )
    func replacedMeanwhile(isReplaced: Bool) async throws {
        try device.write("one")
        try Store.setJournalMode("delete", of: device.store)
        let other = fixture.folder.appending(path: "other")
        try FileManager.default.copyItem(at: device.store, to: other)
        // As long as the store's value.
        let queue = try DatabaseQueue(path: other.path)
        try queue.inDatabase { try $0.execute(sql: "UPDATE note SET text = 'two'") }
        try queue.close()
        let bytes = try Data(contentsOf: other)
        #expect(try bytes.count == Data(contentsOf: device.store).count)
        let store = device.store
        let pushing = try fixture.device("a", clockError: Self.pause) { step in
            guard step.hasPrefix("before write"), step.contains("/WholeStore.ticdsync") else { return }
            if isReplaced {
                guard rename(other.path, store.path) == 0 else { return }
            } else {
                let file = try FileHandle(forWritingTo: store)
                try file.write(contentsOf: bytes)
                try file.close()
            }
        }
        _ = try await pushing.push().value
        #expect(try await !device.push().value.isUnchanged)
        let reader = try fixture.device("reader")
        _ = try await reader.pull().value
        #expect(try reader.notes() == ["two"])
    }

    @Test("An unchanged database is told from a changed database", arguments: ["wal", "delete", "truncate", "persist"])
    func edited(mode: String) async throws {
        try device.write("one")
        try Store.setJournalMode(mode, of: device.store)
        for _ in 0..<3 {
            #expect(try await !device.push().value.isUnchanged)
            #expect(try await device.push().value.isUnchanged)
            #expect(try recorded?.status != nil)
            try grow()
        }
        _ = try await device.push().value
        let reader = try fixture.device("reader")
        _ = try await reader.pull().value
        #expect(try reader.notes() == device.notes())
        // What replaces the store is read, even if it's the same.
        let copy = fixture.folder.appending(path: "copy")
        try FileManager.default.copyItem(at: device.store, to: copy)
        try FileManager.default.removeItem(at: device.store)
        try FileManager.default.moveItem(at: copy, to: device.store)
        let former = try recorded?.status
        #expect(try await device.push().value.isUnchanged)
        #expect(try recorded?.status != former)
    }

    @Test("A database is read if its log has a commit since the push, or within two seconds after the last write")
    func untrusted() async throws {
        try device.write("one")
        let app = try DatabaseQueue(path: device.store.path)
        let pushing = try fixture.device("a", clockError: Self.pause) { step in
            // While the first push sends the store.
            guard step.contains("WholeStore.ticdsync") else { return }
            try app.inDatabase { try $0.execute(sql: "INSERT INTO note VALUES ('meanwhile')") }
        }
        _ = try await pushing.push().value
        #expect(try recorded?.contentRoot != nil && recorded?.status == nil)
        #expect(try await !device.push().value.isUnchanged)
        try app.close()
        let hasty = try fixture.device("a", clockError: -3600)
        try device.write("two")
        #expect(try await !hasty.push().value.isUnchanged)
        #expect(try recorded?.status == nil)
        #expect(try await hasty.push().value.isUnchanged)
        #expect(try recorded?.status == nil)
    }

    @Test("A database's status isn't trusted while its log holds pages, which may belong to a later commit")
    func commitInProgress() throws {
        try device.write("one")
        let store = try LocalStore(device.store) { .now + Self.pause }
        #expect(store.trustedStatus() != nil)
        let app = try DatabaseQueue(path: device.store.path)
        try app.write { db in
            try db.execute(
                sql: """
                    PRAGMA cache_size = 5;
                    INSERT INTO note SELECT hex(zeroblob(2000)) FROM json_each('[1,2,3,4,5,6,7,8]');
                    UPDATE note SET text = text || 'x';
                    """
            )
            #expect(store.trustedStatus() == nil)
        }
        try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        #expect(store.trustedStatus() != nil)
        try app.close()
    }

    @Test("A database whose edit changes neither its size nor its times is told from the unchanged database")
    func timesStandStill() throws {
        try device.write("one")
        try Store.setJournalMode("delete", of: device.store)
        let store = try LocalStore(device.store) { .now + Self.pause }
        let former = try #require(store.trustedStatus())
        let app = try DatabaseQueue(path: device.store.path)
        try app.write { try $0.execute(sql: "UPDATE note SET text = 'two'") }
        try app.close()
        let present = try #require(store.trustedStatus())
        #expect(try store.isUnchanged(since: status(present, withTimesOf: present)))
        #expect(try !store.isUnchanged(since: status(former, withTimesOf: present)))
    }

    @Test("An unchanged database gets its status recorded, and an upload that may still appear stays remembered")
    func interruptedUpload() async throws {
        try device.write("one")
        let client = try await fixture.device("a", clockError: -3600).push().value.client
        let record = try #require(try recorded)
        let name = UploadName(client: client, generation: 2, upload: UUID().uuidString)
        try device.state.recordUpload(UploadRecord(document: record.document, name: name, store: record))
        #expect(try await device.push().value.isUnchanged)
        #expect(try recorded?.status != nil)
        let upload = try device.state.uploads(for: record.document).first { $0.name == name }
        #expect(upload?.store == record)
    }

    @Test("A store stays marked for replacement if a registration marks it while a push reads it")
    func marked() async throws {
        try device.write("one")
        // This device doesn't trust the status of the files, so the next push reads the store.
        _ = try await fixture.device("a", clockError: -3600).push().value
        let document = try #require(try recorded).document
        let marking = try fixture.device("a", clockError: Self.pause) { [device] step in
            if step == "before store status" { try device.state.markStoresForReplacement(document: document) }
        }
        _ = try await marking.push().value
        #expect(try recorded?.mustReplace == true)
        #expect(await code { try await device.push().value } == .documentReplaced)
    }

    @Test("An unchanged database is refused if its document was replaced")
    func replaced() async throws {
        try await device.push(adding: "one")
        let other = try fixture.device("b")
        try other.write("other")
        _ = try await other.removeDocument().value
        _ = try await other.push(recreates: true).value
        #expect(try recorded?.status != nil)
        #expect(await code { try await device.push().value } == .documentReplaced)
    }

    @Test("An unchanged database is sent again if the storage has lost it, and always if the user says so")
    func lost() async throws {
        try await device.push(adding: "one")
        #expect(try await !device.push(whole: true).value.isUnchanged)
        #expect(try await device.push().value.isUnchanged)
        for path in try fixture.files().keys
        where path.contains("/WholeStore/") && path.hasSuffix("WholeStore.ticdsync") {
            try FileManager.default.removeItem(at: fixture.share.appending(path: path))
        }
        #expect(try await !device.push().value.isUnchanged)
        let reader = try fixture.device("reader")
        _ = try await reader.pull().value
        #expect(try reader.notes() == device.notes())
    }

    @Test("A file that isn't a database is always read, since mapped memory doesn't change its times")
    func file() async throws {
        try Data(repeating: 1, count: 100_000).write(to: device.store)
        _ = try await device.push().value
        #expect(try recorded?.contentRoot != nil && recorded?.status == nil)
    }
}
