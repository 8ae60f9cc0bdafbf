import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Shortening the log", .timeLimit(.minutes(60)))
struct VacuumTests {
    /// Inserts notes that are too large for a head, each in a synchronization of its own.
    private func write(_ count: Int, by device: Device) async throws {
        for number in 0..<count {
            try device.execute(
                "INSERT INTO note (title, bytes) VALUES ('\(device.name) \(number)', randomblob(70000))"
            )
            _ = try await device.synchronize().value
        }
    }

    private func notes(_ device: Device) throws -> [String] {
        try device.query("SELECT title || ' ' || hex(substr(bytes, 1, 8)) FROM note ORDER BY 1")
    }

    private func segments(_ fixture: Fixture) throws -> [String] {
        try fixture.files().keys.filter { $0.hasSuffix(".syncchg") }
    }

    @Test(
        "A device that joins after a vacuum begins with the later store, and reads only later edits",
        arguments: [nil, "correct horse"]
    )
    func joining(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try await write(2, by: a)
        try await write(1, by: b)
        try a.execute("DELETE FROM note WHERE title = 'first'; UPDATE note SET title = 'a' WHERE title = 'a 0'")
        let vacuum = try await a.vacuum().value
        #expect(vacuum.isBaselineWritten && vacuum.baselineBytes > 0 && vacuum.removedFiles == 0)
        #expect(vacuum.warnings.isEmpty)
        try await write(1, by: b)
        let read = Locked<[String]>([])
        let c = try fixture.device("c") { step in read.withLock { $0.append(step) } }
        _ = try await c.synchronize().value
        for device in [a, b, c] { _ = try await device.synchronize().value }
        #expect(try notes(c) == notes(a) && notes(b) == notes(a) && notes(a).count == 4)
        let opened = read.withLock { $0.filter { $0.hasPrefix("before read") && $0.contains(".syncchg") } }
        #expect(opened.count == 1, "one edit came after the baseline: \(opened)")
        try c.execute("UPDATE note SET title = 'c' WHERE title = 'a'")
        for device in [c, a, b] { _ = try await device.synchronize().value }
        #expect(try notes(a) == notes(c) && notes(b) == notes(c))
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test(
        "A vacuum writes a damaged file with edits of its device again, so that other devices get them",
        arguments: [nil, "correct horse"]
    )
    func damagedFile(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        _ = try await b.synchronize().value
        try await write(1, by: a)
        let file = try #require(try segments(fixture).first)
        var bytes = try #require(try fixture.files()[file])
        bytes[bytes.count / 2] ^= 1
        try fixture.put(bytes, at: file)
        let waiting = try await b.synchronize().value
        #expect(waiting.warnings.contains { $0.contains("run storesync vacuum on client") }, "\(waiting.warnings)")
        let problems = try await b.verify().value.problems
        #expect(problems.count == 1 && problems[0].path.hasSuffix(file), "\(problems)")
        #expect(problems.first?.message.contains("run storesync vacuum on client") == true, "\(problems)")
        #expect(try notes(b) != notes(a))
        _ = try await a.vacuum().value
        #expect(try segments(fixture).count == 1 && !segments(fixture).contains(file))
        let result = try await b.synchronize().value
        #expect(result.waitingFor.isEmpty && result.warnings.isEmpty, "\(result.warnings)")
        #expect(try notes(b) == notes(a))
        #expect(try await b.verify().value.problems.isEmpty)
    }

    @Test("H15: The checkpoint of a baseline lists the change sets that its store contains")
    func appliedSets() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try await write(2, by: a)
        try await write(1, by: b)
        _ = try await a.vacuum().value
        let name = WholeStoreFile.appliedSyncChangeSets.rawValue
        let files = try fixture.files().filter { $0.key.hasSuffix(name) && $0.value.count > 20_000 }
        let path = try #require(files.keys.first)
        let database = try DatabaseQueue(path: fixture.share.appending(path: path).path)
        let applied = try await database.read { try String.fetchAll($0, sql: "SELECT identifier FROM appliedSet") }
        let clients = try [a, b].compactMap { try $0.synchronizationMemory()?.client }
        #expect(Set(applied) == ["\(clients[0])-2", "\(clients[1])-1"])
    }

    @Test("A device that began with a baseline writes baselines, too, and further devices begin with them")
    func generations() async throws {
        let fixture = try Fixture()
        let a = try await fixture.devicesWithNotes("a")[0]
        var all = [a]
        for name in ["b", "c", "d"] {
            let writer = all[all.count - 1]
            try await write(1, by: writer)
            #expect(try await writer.vacuum().value.isBaselineWritten)
            all.append(try fixture.device(name))
            _ = try await all[all.count - 1].synchronize().value
        }
        for device in all { _ = try await device.synchronize().value }
        for device in all { #expect(try notes(device) == notes(a) && notes(a).count == 4) }
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("F12: Edits that two baselines contain are removed as soon as every client has seen them, and not before")
    func removing() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try await write(3, by: a)
        _ = try await a.vacuum().value
        try await write(1, by: a)
        let early = try await a.vacuum().value
        #expect(early.removedFiles == 0)
        let silent = try b.synchronizationMemory()?.client
        #expect(early.keptFor.map(\.rawValue) == [silent].compactMap(\.self))
        #expect(try segments(fixture).count == 4)
        try await write(1, by: b)
        _ = try await a.synchronize().value
        let late = try await a.vacuum().value
        #expect(late.removedFiles == 3 || late.removedFiles == 4, "\(late)")
        #expect(late.keptFor.isEmpty && late.removedBytes > 3 * 70_000)
        #expect(try await a.vacuum().value.isBaselineWritten == false, "nothing came since")
        let c = try fixture.device("c")
        _ = try await c.synchronize().value
        try await write(1, by: c)
        for device in [a, b] { _ = try await device.synchronize().value }
        #expect(try notes(a) == notes(c) && notes(b) == notes(c) && notes(a).count == 7)
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("An edit that the app makes when a vacuum has published the others is published before the baseline with it")
    func editDuringVacuum() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        let heads = Locked<(written: Int, beforeBaseline: Int?)>((0, nil))
        let vacuuming = try fixture.device("a") { step in
            if step.hasPrefix("before write of "), step.contains("/manifest-") {
                heads.withLock { $0.beforeBaseline = $0.written }
            }
            guard step.hasPrefix("after write of "), let name = step.split(separator: "/").last,
                SyncHeadName(String(name)) != nil
            else { return }
            let count = heads.withLock { heads in
                heads.written += 1
                return heads.written
            }
            if count == 1 { try a.execute("INSERT INTO note (title) VALUES ('meanwhile')") }
        }
        try a.execute("INSERT INTO note (title) VALUES ('before')")
        #expect(try await vacuuming.vacuum().value.isBaselineWritten)
        #expect(heads.withLock(\.beforeBaseline) == 2)
        let joiner = try fixture.device("joiner")
        for device in [joiner, b] {
            _ = try await device.synchronize().value
            #expect(try device.titles() == ["before", "first", "meanwhile"])
        }
        #expect(try await a.synchronize().value.publishedChanges == 0)
    }

    @Test("An edit is published although the baselines can't be listed that make files of the device superfluous")
    func unlistedBaselines() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        for _ in 0..<2 {
            try await fixture.writeLargeNotes(1, by: a)
            #expect(try await a.vacuum().value.isBaselineWritten)
        }
        try await fixture.writeLargeNotes(1, by: b)
        let segments = try fixture.segments(of: a)
        let failures = Locked(0)
        let failing = try fixture.device("a") { step in
            guard step.hasPrefix("before list of "), step.contains("/WholeStore") else { return }
            failures.withLock { $0 += 1 }
            throw RemoteError(.unavailable, "The test's storage doesn't answer.")
        }
        try a.execute("INSERT INTO note (title) VALUES ('new')")
        #expect(try await failing.synchronize().value.publishedChanges == 1)
        #expect(failures.withLock(\.self) > 0)
        #expect(try fixture.segments(of: a) == segments && segments.count == 2)
        _ = try await b.synchronize().value
        #expect(try b.titles() == ["a", "a", "b", "first", "new"])
        try a.execute("INSERT INTO note (title) VALUES ('newer')")
        #expect(try await a.synchronize().value.publishedChanges == 1)
        #expect(try fixture.segments(of: a).count == 1, "the next head gives the file up")
    }

    @Test("A device that lacks edits that were removed starts over with a baseline, and keeps its own edits")
    func gap() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try fixture.copy(b, to: "backup")
        try await write(3, by: a)
        try await write(1, by: b)
        for _ in 0..<3 {
            try await write(1, by: a)
            _ = try await a.vacuum().value
            try await write(1, by: b)
        }
        #expect(try segments(fixture).filter { !$0.contains("SyncChanges/b") }.count < 9)
        let restored = try fixture.device("backup")
        try restored.execute("INSERT INTO note (title) VALUES ('after the restoration')")
        let warnings = try await restored.synchronize { $0.isPreview = true }.value.warnings
        #expect(warnings.contains { $0.contains("will start over with a store") }, "\(warnings)")
        for device in [restored, restored, a, restored, a] {
            do {
                _ = try await device.synchronize().value
            } catch let error as StoreSyncError {
                #expect(error.code == .identityTwice, "\(error)")
            }
        }
        #expect(try notes(restored) == notes(a))
        #expect(try a.query("SELECT title FROM note").contains("after the restoration"))
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("A device that was restored from a backup becomes another client once, and leaves no client without edits")
    func otherClientOnce() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try fixture.copy(b, to: "backup")
        for _ in 0..<3 {
            for device in [a, b] {
                try await write(1, by: device)
                _ = try await device.vacuum().value
            }
        }
        let restored = try fixture.device("backup")
        try restored.execute("INSERT INTO note (title) VALUES ('after the restoration')")
        let former = try restored.client()
        #expect(await code { try await restored.synchronize().value } == .identityTwice)
        let client = try restored.client()
        #expect(client != former)
        for device in [restored, a, restored] { #expect(try await device.synchronize().value.waitingFor.isEmpty) }
        #expect(try restored.synchronizationMemory()?.client == client)
        #expect(try notes(restored) == notes(a) && notes(a).count == 8)
        #expect(try a.query("SELECT title FROM note").contains("after the restoration"))
        let heads = try fixture.files().keys.compactMap { SyncHeadName(($0 as NSString).lastPathComponent) }
        #expect(Set(heads.map(\.client)).count == 3 && heads.allSatisfy { $0.sequence > 0 }, "\(heads)")
    }

    @Test("A device that was restored and starts over with a baseline gives no name of a row twice")
    func names() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try await write(1, by: b)
        _ = try await a.synchronize().value
        try fixture.copy(b, to: "backup")
        try await write(2, by: a)
        _ = try await b.synchronize().value
        try await b.synchronize(after: "INSERT INTO note (title) VALUES ('after the backup')")
        // The edits that the restored device lacks are removed, its own ones aren't.
        for _ in 0..<2 {
            try await write(1, by: a)
            _ = try await a.vacuum().value
        }
        let client = try b.client()
        #expect(try segments(fixture).filter { !$0.contains(client) }.count == 2)
        let restored = try fixture.device("backup")
        _ = try await restored.synchronize().value
        let former = try notes(a)
        #expect(try notes(restored) == former)
        try restored.execute("INSERT INTO note (title) VALUES ('new')")
        for device in [restored, a, restored] { _ = try await device.synchronize().value }
        #expect(try notes(a) == (former + ["new "]).sorted() && notes(restored) == notes(a))
    }

    @Test("Two devices write a baseline at once, and other devices begin with either")
    func concurrently() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try await write(1, by: a)
        try await write(1, by: b)
        _ = try await a.synchronize().value
        async let first = a.vacuum().value
        async let second = b.vacuum().value
        let written = (try await first.isBaselineWritten, try await second.isBaselineWritten)
        #expect(written.0 || written.1)
        let (c, d) = (try fixture.device("c"), try fixture.device("d"))
        _ = try await c.synchronize().value
        #expect(try notes(c) == notes(a))
        _ = try await d.pull().value
        #expect(try notes(d) == notes(a))
        for device in [a, b] { _ = try await device.vacuum().value }
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("Both sides of an unrelated store are taken into a document that has a later baseline")
    func takingBoth() async throws {
        let fixture = try Fixture()
        let a = try await fixture.devicesWithNotes("a")[0]
        try await write(2, by: a)
        try a.execute("DELETE FROM note WHERE title = 'first'")
        _ = try await a.vacuum().value
        let stranger = try fixture.device("stranger")
        try stranger.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB); INSERT INTO note (title) VALUES ('mine')"
        )
        #expect(await code { try await stranger.synchronize().value } == .unrelatedStore)
        _ = try await stranger.synchronize { $0.takenSide = .both }.value
        _ = try await a.synchronize().value
        #expect(try a.titles() == ["a 0", "a 1", "mine"])
        #expect(try notes(stranger) == notes(a))
    }

    @Test("A replica is built again from a later baseline, with the device's own numbers and unpublished edits")
    func rebuilding() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try b.execute("INSERT INTO note (title) VALUES ('b')")
        try await write(2, by: a)
        for device in [b, a] { _ = try await device.synchronize().value }
        _ = try await a.vacuum().value
        try await write(1, by: a)
        try b.execute("INSERT INTO note (title) VALUES ('unpublished')")
        let numbers = try b.query("SELECT id || title FROM note WHERE bytes IS NULL ORDER BY id")
        _ = try await b.synchronize { $0.rebuildsReplica = true }.value
        #expect(try b.query("SELECT id || title FROM note WHERE bytes IS NULL ORDER BY id") == numbers)
        _ = try await a.synchronize().value
        #expect(try notes(a) == notes(b) && notes(a).count == 6)
    }

    @Test("A baseline has the newest conflicts up to a size; a device that builds its replica again keeps the others")
    func conflicts() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        // Each conflict has two images of 4 MiB.
        for _ in 0..<3 {
            for device in [a, b] { try device.execute("UPDATE note SET bytes = randomblob(\(4 << 20))") }
            for device in [a, b, a] { _ = try await device.synchronize().value }
        }
        func entries(_ device: Device) async throws -> [ConflictLog.Entry] {
            try await ConflictLog(ofStoreAt: device.store, state: device.state).entries()
        }
        let all = try await entries(a)
        #expect(all.count == 3)
        _ = try await a.vacuum().value
        let c = try fixture.device("c")
        _ = try await c.synchronize().value
        #expect(try await entries(c).map(\.conflict) == [all[2].conflict])
        for _ in 0..<2 { _ = try await a.synchronize { $0.rebuildsReplica = true }.value }
        let kept = try await entries(a)
        #expect(kept.count == 3 && Set(kept.map(\.conflict)) == Set(all.map(\.conflict)))
        #expect(Set(kept.map(\.other)) == Set(all.map(\.other)))
    }

    @Test(
        "Nothing is kept for a removed client; a device that comes back after that loses no edit",
        arguments: [true, false]
    )
    func removedClients(fromDocument: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        let (a, b, c) = (all[0], all[1], all[2])
        for device in all { try await write(1, by: device) }
        _ = try await a.synchronize().value
        let former = try c.synchronizationMemory()?.client
        let client = try RemoteIdentifier(#require(former))
        try c.execute("INSERT INTO note (title) VALUES ('of a device that was removed')")
        for device in [a, b, a] {
            try await write(1, by: device)
            _ = try await a.vacuum().value
        }
        #expect(try await a.vacuum().value.keptFor == [client])
        _ = try await a.remove(client, from: fromDocument ? fixture.document : nil).value
        for device in [a, b, a, b] {
            try await write(1, by: device)
            _ = try await a.vacuum().value
        }
        #expect(try await a.vacuum().value.keptFor.isEmpty)
        let files = try fixture.files().keys
        #expect(!files.contains { $0.contains("SyncChanges/\(client)/") || $0.contains("RecentSyncs/\(client)-") })
        #expect(try notes(a).count == 11)
        #expect(try await a.verify().value.problems.isEmpty)

        if !fromDocument {
            #expect(await code { try await c.synchronize().value } == .deregistered)
            _ = try await c.supervisor.add(c.registration(registersAgain: true)).value
        }
        for device in [c, c, c, a, b, c] {
            do {
                _ = try await device.synchronize().value
            } catch let error as StoreSyncError {
                #expect(device.name == "c" && error.code == .identityTwice, "\(error)")
            }
        }
        #expect(try notes(a).contains("of a device that was removed "))
        #expect(try notes(b) == notes(a) && notes(c) == notes(a) && notes(a).count == 12)
        #expect(try c.synchronizationMemory()?.client != client.rawValue)
        try await write(1, by: c)
        #expect(try await c.vacuum().value.isBaselineWritten)
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("An edit of a removed client that waits on the device that notes the removal stays on the others")
    func removalWithWaitingEdit() async throws {
        let fixture = try Fixture()
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        let (a, b, c) = (all[0], all[1], all[2])
        for device in all { try await write(1, by: device) }
        for device in [b, c] {
            try await device.synchronize(after: "ALTER TABLE note ADD COLUMN done INTEGER")
        }
        try c.execute("INSERT INTO note (title, done) VALUES ('of a newer version', 1)")
        for device in [c, b] { _ = try await device.synchronize().value }
        let client = try RemoteIdentifier(c.client())
        _ = try await a.remove(client, from: fixture.document).value
        for device in [a, b, a, b] {
            try await write(1, by: device)
            _ = try await device.vacuum().value
        }
        #expect(try b.query("SELECT title FROM note").contains("of a newer version"))
        try a.execute("ALTER TABLE note ADD COLUMN done INTEGER")
        for device in [a, b] { _ = try await device.synchronize().value }
        #expect(try notes(a) == notes(b))
        #expect(try a.query("SELECT title FROM note").contains("of a newer version"))
    }

    @Test("A document whose first upload was lost gets other baselines, with which devices join")
    func lostUpload() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try await write(1, by: a)
        let client = try a.client()
        for path in try fixture.files().keys where path.contains("WholeStore/\(client)/") {
            try fixture.put(nil, at: path)
        }
        let c = try fixture.device("c")
        let error = await #expect(throws: StoreSyncError.self) { try await c.synchronize().value }
        #expect(error?.code == .noUploadedStore && error?.message.contains("storesync vacuum") == true)
        for device in [a, b] {
            try await write(1, by: device)
            #expect(try await device.vacuum().value.isBaselineWritten)
        }
        for device in [c, a] { _ = try await device.synchronize().value }
        #expect(try notes(c) == notes(b) && notes(a) == notes(b))
    }

    @Test("A document whose first upload was lost before any edit gets another store, with which devices join")
    func lostUploadBeforeEdits() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        #expect(try await !b.vacuum().value.isBaselineWritten)
        let path = try #require(try fixture.files().keys.first { $0.hasSuffix("/\(WholeStoreFile.store.rawValue)") })
        try fixture.put(nil, at: path)
        let c = try fixture.device("c")
        let error = await #expect(throws: StoreSyncError.self) { try await c.synchronize().value }
        #expect(error?.code == .noUploadedStore && error?.message.contains("storesync vacuum") == true)
        #expect(try await b.vacuum().value.isBaselineWritten)
        #expect(try await !a.vacuum().value.isBaselineWritten)
        _ = try await c.synchronize().value
        for device in [c, a, b] { try await write(1, by: device) }
        for device in [c, a] { _ = try await device.synchronize().value }
        #expect(try notes(a) == notes(c) && notes(b) == notes(c))
    }

    @Test("Tables that the rules exclude are empty in a baseline, unless a row that synchronizes may refer to them")
    func excludedTables() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            """
            CREATE TABLE family (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT, family INTEGER REFERENCES family);
            CREATE VIRTUAL TABLE word USING fts5 (page);
            CREATE VIRTUAL TABLE search USING fts5 (page, content = Cache, content_rowid = id);
            INSERT INTO word VALUES ('known'); INSERT INTO search (rowid, page) VALUES (1, 'known');
            INSERT INTO family VALUES (1, 'warm');
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, kind INTEGER REFERENCES kind);
            CREATE TABLE Cache (id INTEGER PRIMARY KEY, page TEXT);
            CREATE TRIGGER forget AFTER DELETE ON Cache BEGIN DELETE FROM note; END;
            INSERT INTO kind VALUES (1, 'red', 1); INSERT INTO note VALUES (1, 'first', 1);
            INSERT INTO Cache (page) VALUES ('known only here')
            """
        )
        var request = SynchronizationRequest(
            url: a.store,
            rules: SyncRules(excludedTables: ["cache", "kind", "family", "word", "search"])
        )
        _ = try await a.synchronize(request).value
        try a.execute("INSERT INTO note VALUES (2, 'second', 1); INSERT INTO Cache (page) VALUES ('so is this')")
        _ = try await a.vacuum().value
        request.url = b.store
        _ = try await b.synchronize(request).value
        #expect(try b.titles() == ["first", "second"])
        #expect(try b.query("SELECT page FROM Cache") == [])
        #expect(try b.query("SELECT name FROM kind") == ["red"] && b.query("SELECT name FROM family") == ["warm"])
        for table in ["word", "search"] {
            #expect(try a.query("SELECT rowid || '' FROM \(table) WHERE \(table) MATCH 'known'") == ["1"])
            #expect(try b.query("SELECT rowid || '' FROM \(table) WHERE \(table) MATCH 'known'") == [])
        }
        #expect(try a.query("SELECT page FROM Cache").count == 2)
    }

    @Test("A device that has lost its store as well as edits that were removed starts over with what the user takes")
    func gapAndOtherStore() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        let store = try Data(contentsOf: b.store)
        for device in [a, b] { try await write(1, by: device) }
        try fixture.copy(b, to: "backup")
        for _ in 0..<3 {
            for device in [a, b] {
                try await write(1, by: device)
                _ = try await device.vacuum().value
            }
        }
        let restored = try fixture.device("backup")
        // The store comes from another backup than what this device knows of it.
        try store.write(to: restored.store)
        var codes: [StoreSyncError.Code] = []
        for side in [nil, .remote, .remote, nil] as [TakenSide?] {
            do {
                _ = try await restored.synchronize { $0.takenSide = side }.value
            } catch let error as StoreSyncError {
                codes.append(error.code)
            }
        }
        #expect(codes.allSatisfy { [.storeReplaced, .identityTwice].contains($0) } && codes.count < 4, "\(codes)")
        _ = try await restored.synchronize().value
        _ = try await a.synchronize().value
        #expect(try notes(restored) == notes(a))
    }

    @Test("A replica that is built again captures no mass deletion unless the user allows it")
    func massDeletion() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try a.execute(
            """
            INSERT INTO note (title)
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n
            """
        )
        for device in [a, b] { _ = try await device.synchronize().value }
        try b.execute("DELETE FROM note")
        var request = SynchronizationRequest(url: b.store)
        request.rebuildsReplica = true
        #expect(await code { try await b.synchronize(request).value } == .massDeletion)
        #expect(await code { try await b.synchronize().value } == .massDeletion)
        request.allowsDeletions = true
        _ = try await b.synchronize(request).value
        _ = try await a.synchronize().value
        #expect(try notes(a).isEmpty)
    }

    @Test("A long log is shortened by itself")
    func automatic() async throws {
        let fixture = try Fixture()
        let a = try await fixture.devicesWithNotes("a")[0]
        for number in 0..<5 {
            try a.execute("UPDATE note SET bytes = randomblob(600000)")
            #expect(try await a.synchronize().value.warnings.isEmpty, "\(number)")
        }
        let baselines = try a.synchronizationMemory()?.baselines
        #expect(baselines?.count == 2)
        #expect(try segments(fixture).count == 3, "the first two are in both")
        let b = try fixture.device("b")
        _ = try await b.synchronize().value
        #expect(try notes(b) == notes(a))
    }

    @Test("Only a device that synchronizes a document can shorten its log")
    func refusals() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        #expect(await code { try await a.vacuum().value } == .storeNotFound)
        #expect(await code { try await b.vacuum().value } == .storeNotFound)
    }

    @Test("A vacuum of a copied device doesn't use the store of the device from which it was copied")
    func copiedDevice() async throws {
        let fixture = try Fixture()
        let a = try await fixture.devicesWithNotes("a")[0]
        try fixture.copy(a, to: "copy")
        let copy = try fixture.device("copy")
        try a.execute("INSERT INTO note (title) VALUES ('second')")
        let former = try notes(a)
        let error = await #expect(throws: StoreSyncError.self) { try await copy.vacuum().value }
        #expect(error?.code == .storeNotFound && error?.message.contains("another device's") == true)
        #expect(try notes(a) == former)
        _ = try await copy.synchronize().value
        _ = try await copy.vacuum().value
        #expect(try notes(copy).count == 1 && notes(a).count == 2)
    }

    private struct Death: Error {}

    @Test("After a death at any step of a vacuum, nothing is lost, and the next one completes it")
    func deaths() async throws {
        let count = try await die(at: nil)
        #expect(count > 40)
        let interval = TestDepth.choose(quick: 53, deep: 1)
        for step in stride(from: 0, to: count, by: interval) { _ = try await die(at: step) }
    }

    private func die(at step: Int?) async throws -> Int {
        let fixture = try Fixture()
        let comment = Comment(rawValue: "at step \(step ?? -1)")
        let state = Locked<(steps: Int, last: Int?)>((0, nil))
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        let mortal = try fixture.device("a") { _ in
            try state.withLock { state in
                state.steps += 1
                if let last = state.last, state.steps > last { throw Death() }
            }
        }
        try await write(2, by: a)
        _ = try await a.vacuum().value
        try await write(1, by: b)
        try a.execute("INSERT INTO note (title) VALUES ('unpublished')")
        state.withLock { $0 = (0, step) }
        if step == nil { _ = try await mortal.vacuum().value } else { _ = try? await mortal.vacuum().value }
        let count = state.withLock(\.steps)
        _ = try await b.synchronize().value
        let joiner = try fixture.device("joiner")
        _ = try await joiner.synchronize().value
        _ = try await a.vacuum().value
        for device in [a, b, joiner] { _ = try await device.synchronize().value }
        #expect(try notes(a).count == 5, comment)
        #expect(try notes(b) == notes(a) && notes(joiner) == notes(a), comment)
        let problems = try await a.verify().value.problems
        #expect(problems.isEmpty, comment)
        return count
    }

    @Test("After a death at any step of a vacuum that notes a removed client, all devices judge its edits alike")
    func deathsWithRemovedClient() async throws {
        let count = try await dieNotingRemoval(at: nil)
        let interval = TestDepth.choose(quick: 37, deep: 1)
        for step in stride(from: 0, to: count, by: interval) { _ = try await dieNotingRemoval(at: step) }
    }

    /// Only synchronizes after the death: no later vacuum notes the client again.
    private func dieNotingRemoval(at step: Int?) async throws -> Int {
        let fixture = try Fixture()
        let state = Locked<(steps: Int, last: Int?)>((0, nil))
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        let (a, b, c) = (all[0], all[1], all[2])
        let mortal = try fixture.device("a") { _ in
            try state.withLock { state in
                state.steps += 1
                if let last = state.last, state.steps > last { throw Death() }
            }
        }
        for device in all { try await write(1, by: device) }
        let client = try RemoteIdentifier(c.client())
        _ = try await a.remove(client, from: fixture.document).value
        state.withLock { $0 = (0, step) }
        if step == nil { _ = try await mortal.vacuum().value } else { _ = try? await mortal.vacuum().value }
        let count = state.withLock(\.steps)
        try c.execute("INSERT INTO note (title) VALUES ('of a removed client')")
        for device in [c, b, a, c, b, a, c, c, b, a] {
            do {
                _ = try await device.synchronize().value
            } catch let error as StoreSyncError {
                #expect(device.name == "c" && error.code == .identityTwice, "\(error), at step \(step ?? -1)")
            }
        }
        for device in [b, c] { #expect(try notes(device) == notes(a), "\(device.name), at step \(step ?? -1)") }
        #expect(try notes(a).contains("of a removed client "), "at step \(step ?? -1)")
        return count
    }

    @Test("The log of many devices that synchronize every day stays short")
    func year() async throws {
        let fixture = try Fixture()
        let days = TestDepth.choose(quick: 8, deep: 365)
        let devices = try await fixture.devicesWithNotes("a", "b", "c", "d", "e")
        var most = (files: 0, bytes: 0)
        for day in 0..<days {
            for device in devices {
                try device.execute(
                    """
                    INSERT INTO note (title, bytes) VALUES ('\(device.name) \(day)', randomblob(2000));
                    UPDATE note SET title = title || '!' WHERE id = (SELECT max(id) - 3 FROM note)
                    """
                )
                let warnings = try await device.synchronize().value.warnings
                #expect(warnings.isEmpty, "\(warnings)")
            }
            let files = try fixture.files()
            most = (max(most.files, files.count), max(most.bytes, files.values.reduce(0) { $0 + $1.count }))
        }
        let requests = Locked(0)
        let joiner = try fixture.device("joiner") { step in
            if !step.hasPrefix("after") { requests.withLock { $0 += 1 } }
        }
        let clock = ContinuousClock()
        let joining = try await clock.measure { _ = try await joiner.synchronize().value }
        try devices[0].execute("UPDATE note SET title = title || '?' WHERE id = 1")
        let synchronizing = try await clock.measure { _ = try await devices[0].synchronize().value }
        for device in devices { _ = try await device.synchronize().value }
        _ = try await joiner.synchronize().value
        let titles = try devices[0].titles()
        for device in devices + [joiner] { #expect(try device.titles() == titles) }
        #expect(titles.count == 1 + 5 * days)
        let steps = requests.withLock(\.self)
        print(
            """
            \(days) days: at most \(most.files) files, \(most.bytes) bytes; a join in \(steps) steps and \(joining), a \
            synchronization in \(synchronizing)
            """
        )
        #expect(most.files < 120)
    }
}

extension Device {
    func vacuum() -> OperationHandle<Vacuum> {
        registerDocument().then { [self] registered in
            VacuumOperation(of: registered, backend: backend, state: state)
        }
    }

    /// What this device remembers of synchronizing the document.
    func synchronizationMemory() throws -> SynchronizationMemory? {
        try state.integrityKey(for: documentKey).flatMap { try state.synchronization(of: documentKey, $0) }
    }

    /// Changes what this device remembers of synchronizing the document.
    func setSynchronizationMemory(_ memory: SynchronizationMemory) throws {
        try state.setSynchronization(
            memory,
            of: documentKey,
            #require(try state.integrityKey(for: documentKey))
        )
    }
}
