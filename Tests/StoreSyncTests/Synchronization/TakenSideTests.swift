import Foundation
import Operations
import OperationsTesting
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Stores that don't belong to their document", .timeLimit(.minutes(60)))
struct TakenSideTests {
    private static let schema = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT, parent INTEGER REFERENCES folder);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder, title TEXT);
        CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT);
        CREATE TABLE word (text TEXT);
        CREATE TABLE place (shelf INTEGER, slot INTEGER, name TEXT, PRIMARY KEY (shelf, slot))
        """

    /// Every row of a device, without the numbers.
    func content(_ device: Device) throws -> [String] {
        try device.query(
            """
            SELECT 'note ' || n.title || ' in ' || ifnull(f.name, '-') || ' in ' || ifnull(p.name, '-') FROM note n
            LEFT JOIN folder f ON f.id = n.folder LEFT JOIN folder p ON p.id = f.parent
            UNION ALL SELECT 'folder ' || name FROM folder
            UNION ALL SELECT key || ' = ' || value FROM setting UNION ALL SELECT text FROM word
            UNION ALL SELECT 'place ' || shelf || ' ' || slot || ' ' || name FROM place ORDER BY 1
            """
        )
    }

    /// Two devices that have synchronized edits of both.
    func devices(_ fixture: Fixture) async throws -> (Device, Device) {
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(Self.schema)
        try a.execute(
            """
            INSERT INTO folder VALUES (1, 'home', NULL), (2, 'garden', 1);
            INSERT INTO note VALUES (1, 2, 'roses'), (2, 1, 'roof');
            INSERT INTO setting VALUES ('font', 'serif'), ('size', '12');
            INSERT INTO word VALUES ('moin');
            INSERT INTO place VALUES (1, 1, 'books'), (1, 2, 'games')
            """
        )
        try await synchronize(a, b)
        return (a, b)
    }

    func synchronize(_ devices: Device...) async throws {
        for device in devices { _ = try await device.synchronize().value }
    }

    func take(_ side: TakenSide, _ device: Device) async throws -> Synchronization {
        try await device.synchronize { $0.takenSide = side }.value
    }

    func asides(_ device: Device) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: device.store.deletingLastPathComponent().path)
            .filter { $0.contains(".aside-") }
    }

    /// Two devices after the first's store was put back to an older state, before edits of both.
    func restoredBackup(_ fixture: Fixture) async throws -> (Device, Device) {
        let (a, b) = try await devices(fixture)
        try await synchronize(a)
        let backup = try Data(contentsOf: a.store)
        try a.execute("UPDATE note SET title = 'tulips' WHERE id = 1; DELETE FROM note WHERE id = 2")
        try b.execute("UPDATE setting SET value = '14' WHERE key = 'size'; INSERT INTO note VALUES (9, 2, 'of b')")
        try await synchronize(a, b, a, b)
        try backup.write(to: a.store)
        #expect(await code { try await a.synchronize().value } == .storeReplaced)
        return (a, b)
    }

    @Test("If the state directory is the restored backup, and not the store, the error says that this may be so")
    func restoredState() async throws {
        let fixture = try Fixture()
        let (a, _) = try await devices(fixture)
        try fixture.copy(a, to: "backup")
        let backup = try fixture.device("backup")
        try a.execute("INSERT INTO note VALUES (9, 2, 'later')")
        try await synchronize(a)
        try Data(contentsOf: a.store).write(to: backup.store)
        let error = await #expect(throws: StoreSyncError.self) { try await backup.synchronize().value }
        #expect(error?.code == .storeReplaced && error?.message.contains("or the device's memory") == true)
    }

    @Test("A restored backup is overwritten by the document, and kept aside")
    func backupRemote() async throws {
        let fixture = try Fixture()
        let (a, b) = try await restoredBackup(fixture)
        let former = try content(b)
        let result = try await take(.remote, a)
        #expect(result.publishedChanges == 0)
        #expect(result.warnings.contains { $0.contains(".aside-") })
        #expect(try content(a) == former)
        #expect(try asides(a).count == 1)
        try a.execute("INSERT INTO note VALUES (NULL, 1, 'later')")
        try await synchronize(a, b)
        #expect(try content(a) == content(b))
        #expect(try content(b).contains("note later in home in -"))
    }

    @Test("Two backups that are set aside at the same time are both kept")
    func backupsAtOnce() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let fixture = try Fixture(simulation: simulation, seed: 1)
            let (a, _) = try await restoredBackup(fixture)
            let backup = try Data(contentsOf: a.store)
            _ = try await take(.remote, a)
            try backup.write(to: a.store)
            _ = try await take(.remote, a)
            #expect(try asides(a).count == 2)
        }
    }

    @Test("A store with a long name is set aside under a shorter one")
    func longName() async throws {
        let fixture = try Fixture()
        _ = try await devices(fixture)
        let (c, d) = (try fixture.device("c"), try fixture.device("d"))
        let url = c.store.deletingLastPathComponent().appending(path: String(repeating: "é", count: 123) + "n")
        for device in [c, d] {
            _ = try await device.synchronize(SynchronizationRequest(url: url, takenSide: .remote)).value
        }
        let aside = try #require(try asides(c).first)
        #expect(aside.utf8.count <= LocalStore.maximumNameBytes && aside.hasPrefix("éé"))
    }

    @Test("A restored backup counts, but for rows that other devices inserted since")
    func backupLocal() async throws {
        let fixture = try Fixture()
        let (a, b) = try await restoredBackup(fixture)
        _ = try await take(.local, a)
        try await synchronize(b)
        #expect(try content(a) == content(b))
        let rows = try content(a)
        #expect(rows.contains("note roses in garden in home") && rows.contains("note roof in home in -"))
        #expect(rows.contains("size = 12"))
        #expect(rows.contains("note of b in garden in home"))
    }

    @Test("If a restored backup counts, rows without a key that another device inserted since come back")
    func backupLocalWithoutKeys() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        try await synchronize(a)
        let backup = try Data(contentsOf: a.store)
        try b.execute("INSERT INTO word VALUES ('ahoi')")
        try await synchronize(b, a)
        try backup.write(to: a.store)
        _ = try await take(.local, a)
        try await synchronize(b)
        #expect(try b.query("SELECT text FROM word ORDER BY 1") == ["ahoi", "moin"])
        #expect(try content(a) == content(b))
    }

    @Test("If a replica was restored too, what it lacks of other devices is read again", arguments: TakenSide.allCases)
    func restoredReplica(side: TakenSide) async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        try await synchronize(a)
        let backup = try Data(contentsOf: a.store)
        try a.execute("UPDATE note SET title = 'tulips' WHERE id = 1")
        try await synchronize(a, b)
        let url = try #require(a.state.replicas().first)
        let replica = try Data(contentsOf: url)
        try b.execute("INSERT INTO note VALUES (9, 2, 'of b')")
        try await synchronize(b, a)
        try backup.write(to: a.store)
        try replica.write(to: url)
        #expect(await code { try await a.synchronize().value } == .storeReplaced)
        _ = try await take(side, a)
        try await synchronize(b, a)
        #expect(try content(a).contains("note of b in garden in home"))
        #expect(try content(a) == content(b))
    }

    @Test("Of a restored backup and its document, the rows of both stay, and the document's values")
    func backupBoth() async throws {
        let fixture = try Fixture()
        let (a, b) = try await restoredBackup(fixture)
        let result = try await take(.both, a)
        #expect(result.conflicts == 1)
        try await synchronize(b)
        #expect(try content(a) == content(b))
        let rows = try content(a)
        #expect(rows.contains("note of b in garden in home") && rows.contains("size = 14"))
        // Rows are the same if all is equal, so the former note is a row of the store only.
        #expect(rows.contains("note roses in garden in home") && rows.contains("note tulips in garden in home"))
        let log = ConflictLog(ofStoreAt: a.store, state: a.state)
        let entry = try #require(try await log.entries().first { $0.conflict.rule == .otherSideTaken })
        #expect(entry.conflict.lost == ["value": .value(.text(Array("12".utf8)))])
        try await log.restore(entry.number)
        try await synchronize(a, b)
        #expect(try content(b).contains("size = 12"))
    }

    /// A device with a store of its own, whose numbers mean other rows than the document's.
    func otherStore(_ fixture: Fixture) throws -> Device {
        let c = try fixture.device("c")
        try c.execute(Self.schema)
        try c.execute(
            """
            INSERT INTO folder VALUES (1, 'cellar', 2), (2, 'home', NULL), (3, 'garden', 2);
            INSERT INTO note VALUES (1, 1, 'wine'), (2, 3, 'roses'), (7, 3, 'herbs');
            INSERT INTO setting VALUES ('font', 'sans'), ('color', 'red');
            INSERT INTO word VALUES ('moin'), ('moin'), ('servus');
            INSERT INTO place VALUES (1, 2, 'games'), (1, 3, 'maps'), (2, 1, 'books')
            """
        )
        return c
    }

    @Test("A store of its own joins with the rows of both, and equal rows stay one")
    func joiningBoth() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        let c = try otherStore(fixture)
        #expect(await code { try await c.synchronize().value } == .unrelatedStore)
        let result = try await take(.both, c)
        #expect(result.conflicts == 1)
        try await synchronize(a, b)
        let rows = [
            "color = red", "folder cellar", "folder garden", "folder home", "font = serif", "moin", "moin",
            "note herbs in garden in home", "note roof in home in -", "note roses in garden in home",
            "note wine in cellar in home", "place 1 1 books", "place 1 2 games", "place 1 3 maps",
            "place 2 1 books", "servus", "size = 12",
        ]
        for device in [a, b, c] { #expect(try content(device) == rows) }
        // The rows that the store had keep their numbers.
        #expect(try c.query("SELECT title FROM note WHERE id = 7") == ["herbs"])
        try c.execute("UPDATE note SET title = 'thyme' WHERE id = 7")
        try await synchronize(c, a)
        #expect(try content(a).contains("note thyme in garden in home"))
        #expect(try await c.synchronize().value.publishedChanges == 0)
    }

    @Test("A store of its own is overwritten by the document when it joins, and kept aside")
    func joiningRemote() async throws {
        let fixture = try Fixture()
        let (a, _) = try await devices(fixture)
        let c = try otherStore(fixture)
        let result = try await take(.remote, c)
        #expect(result.warnings.contains { $0.contains(".aside-") })
        #expect(try content(c) == content(a))
        #expect(try asides(c).count == 1)
    }

    @Test("A device that dies after it created its replica still has to be told what counts")
    func joiningAgain() async throws {
        let fixture = try Fixture()
        _ = try await devices(fixture)
        let dies = Locked(true)
        let c = try fixture.device("c") { step in
            if step == "captured", dies.withLock(\.self) { throw CancellationError() }
        }
        try c.execute(Self.schema)
        try c.execute("INSERT INTO setting VALUES ('color', 'red')")
        await #expect(throws: CancellationError.self) { try await take(.both, c) }
        dies.withLock { $0 = false }
        let result = try await c.synchronize().value
        #expect(result.publishedChanges == 0 || result.publishedChanges == 1)
        #expect(try content(c).contains("color = red") && content(c).contains("font = serif"))
    }

    @Test("A store that is gone is created again if the user wants that")
    func missing() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        try a.execute("INSERT INTO note VALUES (NULL, 1, 'later')")
        try await synchronize(a, b)
        try FileManager.default.removeItem(at: b.store)
        #expect(await code { try await b.synchronize().value } == .storeNotFound)
        _ = try await take(.remote, b)
        #expect(try content(b) == content(a))
        #expect(try asides(b).isEmpty)
    }

    @Test("A store that is gone before its first synchronization completed is created again, and its edits stay")
    func missingBeforeFirstToken() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        try a.execute("INSERT INTO note VALUES (NULL, 1, 'later')")
        try await synchronize(a, b)
        let dies = Locked(true)
        let c = try fixture.device("c") { step in
            if step == "captured", dies.withLock(\.self) { throw CancellationError() }
        }
        await #expect(throws: CancellationError.self) { try await c.synchronize().value }
        try c.execute("INSERT INTO setting VALUES ('color', 'red')")
        await #expect(throws: CancellationError.self) { try await c.synchronize().value }
        // The store that is created has the note, which the replica takes for missing.
        #expect(try await a.vacuum().value.isBaselineWritten)
        try FileManager.default.removeItem(at: c.store)
        dies.withLock { $0 = false }
        _ = try await take(.remote, c)
        try await synchronize(a, b)
        for device in [a, b, c] {
            let rows = try content(device)
            #expect(rows.contains("color = red"))
            #expect(rows.filter { $0.hasPrefix("note later") }.count == 1)
        }
        #expect(try content(c) == content(a) && content(b) == content(a))
    }

    @Test("A restored backup is taken that the app has updated further than the store", arguments: TakenSide.allCases)
    func updatedBackup(side: TakenSide) async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        let backup = try Data(contentsOf: a.store)
        let update = "ALTER TABLE note ADD COLUMN color TEXT"
        let laterUpdate = "ALTER TABLE note ADD COLUMN size INTEGER"
        try a.execute("\(update); UPDATE note SET color = 'red' WHERE id = 1")
        try await synchronize(a, b)
        let former = try Data(contentsOf: a.store)
        try backup.write(to: a.store)
        try a.execute("\(update); \(laterUpdate); UPDATE note SET size = 7 WHERE id = 2")
        let updated = try Data(contentsOf: a.store)
        #expect(await code { try await a.synchronize().value } == .storeReplaced)
        // After a preview, the user can still put back the former store.
        var preview = SynchronizationRequest(url: a.store, takenSide: side)
        preview.isPreview = true
        _ = try await a.synchronize(preview).value
        try former.write(to: a.store)
        #expect(try await a.synchronize().value.publishedChanges == 0)
        try updated.write(to: a.store)
        _ = try await take(side, a)
        #expect(try asides(a).count == (side == .remote ? 1 : 0))
        for device in [a, b] { #expect(try await device.synchronize().value.publishedChanges == 0) }
        try b.execute("\(update); \(laterUpdate)")
        try await synchronize(b, a, b)
        func notes(_ device: Device) throws -> [String] {
            let row = "title || ' ' || ifnull(color, '-') || ' ' || ifnull(size, '-')"
            return try device.query("SELECT \(row) FROM note ORDER BY 1 DESC")
        }
        let expected =
            switch side {
            case .remote: ["roses red -", "roof - -"]
            case .local: ["roses - -", "roof - 7"]
            case .both: ["roses red -", "roses - -", "roof - 7", "roof - -"]
            }
        #expect(try notes(a) == expected)
        #expect(try notes(b) == expected)
    }

    @Test("A store of another schema at a synchronized path changes nothing, whatever counts")
    func otherSchema() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        let aside = a.store.appendingPathExtension("aside")
        try FileManager.default.moveItem(at: a.store, to: aside)
        try a.execute("CREATE TABLE photo (id INTEGER PRIMARY KEY)")
        for side in [nil] + TakenSide.allCases {
            #expect(await code { try await a.synchronize { $0.takenSide = side }.value } == .storeReplaced)
        }
        try FileManager.default.removeItem(at: a.store)
        try FileManager.default.moveItem(at: aside, to: a.store)
        #expect(try await a.synchronize().value.publishedChanges == 0)
        try a.execute("UPDATE note SET title = 'tulips' WHERE id = 1")
        #expect(try await a.synchronize().value.publishedChanges == 1)
        try await synchronize(b)
        #expect(try content(a) == content(b))
    }

    @Test("The rules of the first synchronization hold on every device")
    func rules() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(Self.schema)
        try a.execute("INSERT INTO word VALUES ('of a')")
        let rules = SyncRules(excludedTables: ["word"])
        _ = try await a.synchronize { $0.rules = rules }.value
        try await synchronize(b)
        try a.execute("INSERT INTO word VALUES ('only here'); INSERT INTO setting VALUES ('font', 'serif')")
        #expect(try await a.synchronize { $0.rules = rules }.value.publishedChanges == 1)
        _ = try await ConflictLog(ofStoreAt: a.store, state: a.state).entries()
        #expect(try await a.synchronize().value.publishedChanges == 0)
        try await synchronize(b)
        #expect(try content(b) == ["font = serif", "of a"])
        let other = SynchronizationRequest(url: b.store, rules: SyncRules(excludedTables: ["note"]))
        #expect(await code { try await b.synchronize(other).value } == .documentSynchronizes)
    }
}
