import Foundation
import GRDB
import Operations
import StoreChanges
import StoreSync
import StoreSyncGRDB
import Testing
import ThreadSupport

@Suite("Writing through an app's connection", .timeLimit(.minutes(60)))
@MainActor struct ConnectionTests {
    @Test(
        "The connection's settings are afterwards as before, and a synchronization is on the disk when it ends",
        arguments: ConnectionKind.allCases,
        [true, false]
    )
    func settings(kind: ConnectionKind, foreignKeys: Bool) async throws {
        let fixture = try Fixture()
        var configuration = Configuration()
        configuration.foreignKeysEnabled = foreignKeys
        let pair = try await fixture.pair(kind, configuration)
        let events = RecordedEvents()
        pair.app.add(transactionObserver: events)
        for (index, synchronous) in [0, 1, 2, 3].enumerated() {
            try await pair.app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = \(synchronous)") }
            try pair.laptop.execute("INSERT INTO note (title, body) VALUES ('\(index)', '')")
            try await pair.laptop.synchronize()
            _ = try await pair.phone.notes.synchronize(pair.app).value
            #expect(events.settings == [0, 3])
            let settings = try await pair.app.writeWithoutTransaction { db in
                try ["foreign_keys", "synchronous"].map { try Int.fetchOne(db, sql: "PRAGMA \($0)") ?? -1 }
            }
            #expect(settings == [foreignKeys ? 1 : 0, synchronous])
        }
        #expect(events.transactions.count == 4)
    }

    @Test(
        "What the app writes between capture and write isn't overwritten",
        arguments: ConnectionKind.allCases,
        [1, 2]
    )
    func editMeanwhile(kind: ConnectionKind, count: Int) async throws {
        let fixture = try Fixture()
        let (app, edits) = (Locked<(any DatabaseWriter)?>(nil), Locked(0))
        let pair = try await fixture.pair(kind) { step in
            guard step == "captured", let app = app.withLock(\.self) else { return }
            let edit = edits.withLock { edits in
                edits += 1
                return edits
            }
            guard edit <= count else { return }
            try app.write { try $0.execute(sql: "UPDATE note SET body = ?", arguments: ["edit \(edit)"]) }
        }
        try pair.laptop.execute("UPDATE note SET title = 'oat milk'")
        try await pair.laptop.synchronize()
        app.withLock { $0 = pair.app }
        _ = try await pair.phone.notes.synchronize(pair.app).value
        app.withLock { $0 = nil }
        #expect(try await pair.rows() == ["oat milk:edit \(count)"])
        try await pair.converge()
        #expect(try pair.laptop.rows() == ["oat milk:edit \(count)"])
        #expect(try await pair.phone.notes.conflicts(in: pair.app).entries().isEmpty)
    }

    private struct Death: Error {}

    @Test(
        "A synchronization that dies before or after the store changes is completed",
        arguments: ConnectionKind.allCases,
        ["captured", "written"]
    )
    func death(kind: ConnectionKind, step: String) async throws {
        let fixture = try Fixture()
        let dies = Locked(false)
        let pair = try await fixture.pair(kind) { if $0 == step, dies.withLock(\.self) { throw Death() } }
        try pair.laptop.execute("INSERT INTO note VALUES (2, 'bread', '')")
        try await pair.laptop.synchronize()
        try await pair.app.write { try $0.execute(sql: "INSERT INTO note VALUES (2, 'tea', '')") }
        dies.withLock { $0 = true }
        await #expect(throws: Death.self) { try await pair.phone.notes.synchronize(pair.app).value }
        dies.withLock { $0 = false }
        #expect(try await pair.rows() == (step == "captured" ? ["milk:", "tea:"] : ["milk:", "tea:", "bread:"]))
        try await pair.converge()
        #expect(try await pair.rows() == ["milk:", "tea:", "bread:"])
        #expect(try pair.laptop.rows() == ["milk:", "tea:", "bread:"])
        #expect(try await pair.phone.notes.synchronize(pair.app).value.publishedChanges == 0)
    }

    @Test("F25: What an app's failed transaction had written isn't published", arguments: ConnectionKind.allCases)
    func failedTransaction(kind: ConnectionKind) async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(kind)
        await #expect(throws: Death.self) {
            try await pair.app.write { db in
                try db.execute(sql: "INSERT INTO note VALUES (2, 'bread', '')")
                throw Death()
            }
        }
        #expect(try await pair.phone.notes.synchronize(pair.app).value.publishedChanges == 0)
        try await pair.laptop.synchronize()
        #expect(try pair.laptop.rows() == ["milk:"])
    }

    @Test(
        "A transaction observer that throws fails the synchronization, and the next one completes it",
        arguments: ConnectionKind.allCases
    )
    func refusal(kind: ConnectionKind) async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(kind)
        let events = RecordedEvents()
        pair.app.add(transactionObserver: events)
        try pair.laptop.execute("INSERT INTO note VALUES (2, 'bread', '')")
        try await pair.laptop.synchronize()
        events.refuse(true)
        await #expect(throws: RecordedEvents.Refusal()) { try await pair.phone.notes.synchronize(pair.app).value }
        #expect(try await pair.rows() == ["milk:"])
        events.refuse(false)
        #expect(events.transactions.isEmpty)
        _ = try await pair.phone.notes.synchronize(pair.app).value
        #expect(events.transactions == [["insert 2"]])
        #expect(try await pair.rows() == ["milk:", "bread:"])
    }

    @Test("An observer may start a synchronization when it's told of the changes of one")
    func synchronizationInObserver() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.pool)
        let second = Locked<OperationHandle<Synchronization>?>(nil)
        try await pair.app.writeWithoutTransaction { [pair] db in
            db.afterNextTransaction { _ in second.withLock { $0 = pair.phone.notes.synchronize(pair.app) } }
        }
        try pair.laptop.execute("INSERT INTO note VALUES (2, 'bread', '')")
        try await pair.laptop.synchronize()
        let first = try await pair.phone.notes.synchronize(pair.app).value
        #expect(first.applied["note"]?.inserted == 1)
        #expect(try await second.withLock(\.self)?.value.applied == [:])
    }

    @Test("An app that writes to a queue during synchronizations never finds its database locked")
    func concurrentWrites() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.queue)
        async let writing: Void = Self.write(100, to: pair.app)
        for index in 0..<5 {
            try pair.laptop.execute("INSERT INTO note (title, body) VALUES ('laptop', '\(index)')")
            try await pair.laptop.synchronize()
            _ = try await pair.phone.notes.synchronize(pair.app).value
        }
        try await writing
        try await pair.converge()
        #expect(try await pair.rows().count == 106)
        #expect(try await pair.rows() == pair.laptop.rows())
    }

    private nonisolated static func write(_ count: Int, to app: any DatabaseWriter) async throws {
        for index in 0..<count {
            try await app.write {
                try $0.execute(sql: "INSERT INTO note (title, body) VALUES ('phone', ?)", arguments: ["\(index)"])
            }
        }
    }

    @Test("Edits are recorded through the app's connection, and published later", arguments: ConnectionKind.allCases)
    func recording(kind: ConnectionKind) async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(kind)
        try await pair.app.write { try $0.execute(sql: "INSERT INTO note VALUES (2, 'tea', '')") }
        let wasTold = Locked(false)
        try await pair.app.writeWithoutTransaction { db in
            db.afterNextTransaction { _ in wasTold.withLock { $0 = true } }
        }
        #expect(try await pair.phone.notes.recordChanges(in: pair.app) == 1)
        #expect(wasTold.withLock { $0 })
        #expect(try await pair.phone.notes.recordChanges(in: pair.app) == 0)
        try await pair.converge()
        #expect(try pair.laptop.rows() == ["milk:", "tea:"])
        let refused = await #expect(throws: StoreSyncError.self) {
            try await pair.phone.notes.recordChanges(in: DatabaseQueue())
        }
        #expect(refused?.code == .storeNotFound)
    }

    /// The code of the error with which a synchronization fails; `nil` if it succeeds.
    private func refusal(of database: any DatabaseWriter, on device: Device) async throws -> StoreSyncError.Code? {
        do {
            _ = try await device.notes.synchronize(database).value
            return nil
        } catch let error as StoreSyncError {
            return error.code
        }
    }

    @Test("A database in memory, a connection that only reads, and a closed one are refused")
    func unsuitable() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.pool)
        #expect(try await refusal(of: try DatabaseQueue(), on: pair.phone) == .storeNotFound)
        #expect(try await refusal(of: try DatabaseQueue(named: "notes"), on: pair.phone) == .storeNotFound)
        await #expect(throws: StoreSyncError.self) {
            try await pair.phone.notes.conflicts(in: DatabaseQueue()).entries()
        }
        var configuration = Configuration()
        configuration.readonly = true
        let reader = try DatabaseQueue(path: pair.phone.store.path, configuration: configuration)
        #expect(try await refusal(of: reader, on: pair.phone) == .cannotWrite)
    }

    @Test("A connection that the app has closed is refused", arguments: ConnectionKind.allCases)
    func closed(kind: ConnectionKind) async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(kind)
        try pair.app.close()
        #expect(try await refusal(of: pair.app, on: pair.phone) == .cannotWrite)
        let recording = await #expect(throws: StoreSyncError.self) {
            try await pair.phone.notes.recordChanges(in: pair.app)
        }
        #expect(recording?.code == .cannotWrite)
    }

    @Test(
        "A connection that the app closes during a synchronization ends it without loss",
        arguments: ConnectionKind.allCases,
        ["captured", "written"]
    )
    func closedMeanwhile(kind: ConnectionKind, step: String) async throws {
        let fixture = try Fixture()
        let app = Locked<(any DatabaseWriter)?>(nil)
        let pair = try await fixture.pair(kind) { reached in
            guard reached == step else { return }
            try app.withLock { try $0?.close() }
        }
        try await pair.app.write { try $0.execute(sql: "INSERT INTO note VALUES (2, 'bread', '')") }
        try pair.laptop.execute("UPDATE note SET title = 'oat milk'")
        try await pair.laptop.synchronize()
        app.withLock { $0 = pair.app }
        #expect(try await refusal(of: pair.app, on: pair.phone) == .cannotWrite)
        app.withLock { $0 = nil }
        try await pair.phone.synchronize()
        try await pair.laptop.synchronize()
        #expect(try pair.phone.rows() == ["oat milk:", "bread:"])
        #expect(try pair.laptop.rows() == ["oat milk:", "bread:"])
    }

    @Test("For a connection that can't be used, nothing is created on the remote")
    func nothingCreated() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("phone")
        try device.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)")
        var configuration = Configuration()
        configuration.readonly = true
        let reader = try DatabaseQueue(path: device.store.path, configuration: configuration)
        #expect(try await refusal(of: reader, on: device) == .cannotWrite)
        #expect(try await refusal(of: try DatabaseQueue(), on: device) == .storeNotFound)
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.share.path).isEmpty)
    }

    @Test("A temporary table of the app that hides a table of the store is refused")
    func temporaryTable() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.pool)
        try await pair.app.writeWithoutTransaction { try $0.execute(sql: "CREATE TEMP TABLE Note (id)") }
        try pair.laptop.execute("INSERT INTO note VALUES (2, 'bread', '')")
        try await pair.laptop.synchronize()
        #expect(try await refusal(of: pair.app, on: pair.phone) == .cannotWrite)
        try await pair.app.writeWithoutTransaction { try $0.execute(sql: "DROP TABLE temp.Note") }
        _ = try await pair.phone.notes.synchronize(pair.app).value
        #expect(try await pair.rows() == ["milk:", "bread:"])
    }

    @Test("Nothing is written to a file that was replaced after the app opened it")
    func replacedFile() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.queue)
        let (store, former) = (pair.phone.store, fixture.folder.appending(path: "former"))
        try FileManager.default.moveItem(at: store, to: former)
        try FileManager.default.copyItem(at: former, to: store)
        for title in ["bread", "tea"] {
            try pair.laptop.execute("INSERT INTO note (title, body) VALUES ('\(title)', '')")
            try await pair.laptop.synchronize()
            if title == "bread" { try await pair.phone.synchronize() }
        }
        #expect(try await refusal(of: pair.app, on: pair.phone) == .storeReplaced)
        #expect(try await pair.rows() == ["milk:"])
        #expect(try pair.phone.rows() == ["milk:", "bread:"])
    }
}
