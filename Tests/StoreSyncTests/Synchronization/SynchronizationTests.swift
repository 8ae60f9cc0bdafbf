import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Synchronizing records", .timeLimit(.minutes(60)))
struct SynchronizationTests {
    @Test("Edits of two devices at once are merged, sealed and unsealed", arguments: [nil, "correct horse"])
    func merging(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0)"
        )
        try a.execute("INSERT INTO note (title) VALUES ('milk'), ('bread')")
        _ = try await a.synchronize().value
        let joined = try await b.synchronize().value
        #expect(joined.applied == [:] && joined.conflicts == 0)
        let rows = try b.query("SELECT id || ' ' || title || ' ' || done FROM note ORDER BY id")
        #expect(rows == ["1 milk 0", "2 bread 0"])

        try a.execute("UPDATE note SET title = 'oat milk' WHERE id = 1; INSERT INTO note (title) VALUES ('eggs')")
        try b.execute("UPDATE note SET done = 1 WHERE id = 1; INSERT INTO note (title) VALUES ('tea')")
        let first = try await a.synchronize().value
        #expect(first.publishedChanges == 2 && first.sequence == 1)
        let second = try await b.synchronize().value
        #expect(second.applied == ["note": ChangeCounts(inserted: 1, updated: 1, deleted: 0)])
        _ = try await a.synchronize().value
        for device in [a, b] {
            let notes = try device.query("SELECT title || ' ' || done FROM note")
            #expect(Set(notes) == ["oat milk 1", "bread 0", "eggs 0", "tea 0"])
        }
        let idle = try await a.synchronize().value
        #expect(idle.applied == [:] && idle.publishedBytes == 0 && idle.publishedChanges == 0)
    }

    @Test("A first synchronization that can't write its store decides nothing for other devices")
    func unwritableStore() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        _ = try await a.push().value
        _ = try await b.pull().value
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let writer = try DatabaseQueue(path: a.store.path, configuration: configuration)
        try await writer.writeWithoutTransaction { try $0.beginTransaction(.immediate) }
        #expect(await code { try await a.synchronize().value } == .busy)
        try b.execute("INSERT INTO note VALUES (1, 'of b')")
        #expect(try await b.push().value.generation == 2)
        try await writer.writeWithoutTransaction { try $0.rollback() }
    }

    @Test("Edits made before the first synchronization of a pulled store are kept")
    func editedBeforeJoining() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL); INSERT INTO note VALUES (1, 'milk')"
        )
        _ = try await a.push().value
        _ = try await b.pull().value
        try b.execute("INSERT INTO note VALUES (2, 'of b')")
        _ = try await a.synchronize().value
        try a.execute("INSERT INTO note VALUES (2, 'of a')")
        _ = try await a.synchronize().value
        _ = try await b.synchronize().value
        _ = try await a.synchronize().value
        #expect(try Set(a.query("SELECT title FROM note")) == ["milk", "of a", "of b"])
        #expect(try Set(b.query("SELECT title FROM note")) == ["milk", "of a", "of b"])
    }

    @Test(
        "Edits of a store whose last pull died after it had replaced the store are kept by the first synchronization",
        arguments: [false, true]
    )
    func editedAfterDeadPull(isPulledAgain: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (title TEXT PRIMARY KEY); INSERT INTO note VALUES ('milk')")
        _ = try await a.push().value
        _ = try await b.pull().value
        try b.execute("INSERT INTO note VALUES ('given up')")
        let dying = try fixture.device("b") { step in
            if step == "before pull" { throw RemoteError(.unavailable, "The device is dead.") }
        }
        #expect(await code { try await dying.pull(overwrite: true).value } == .remoteUnavailable)
        try b.execute("INSERT INTO note VALUES ('of b')")
        if isPulledAgain { #expect(await code { try await b.pull().value } == .localChanges) }
        for device in [a, b, a] { _ = try await device.synchronize().value }
        #expect(try Set(a.query("SELECT title FROM note")) == ["milk", "of b"])
    }

    /// Returns a device with two uploads, a device that has pulled the first, and that device as it dies in its next pull.
    private static func devicesBeforeDeadPull(_ fixture: Fixture) async throws -> (a: Device, b: Device, dying: Device)
    {
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note VALUES (1, 'milk')")
        _ = try await a.push().value
        _ = try await b.pull().value
        try a.execute("INSERT INTO note (title) VALUES ('of a')")
        _ = try await a.push().value
        let dying = try fixture.device("b") { step in
            if step == "before pull" { throw RemoteError(.unavailable, "The device is dead.") }
        }
        return (a, b, dying)
    }

    @Test("Edits of a store that a dead pull replaced by a later one are kept, and no pulled row is there twice")
    func editedAfterLaterDeadPull() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, dying) = try await Self.devicesBeforeDeadPull(fixture)
        #expect(await code { try await dying.pull().value } == .remoteUnavailable)
        try b.execute("INSERT INTO note (title) VALUES ('of b')")
        for device in [a, b, a] { _ = try await device.synchronize().value }
        #expect(try a.query("SELECT title FROM note ORDER BY title") == ["milk", "of a", "of b"])
        #expect(try b.query("SELECT title FROM note ORDER BY title") == ["milk", "of a", "of b"])
    }

    @Test(
        "A store that was edited after a dead pull wrote into it isn't synchronized before the user says what counts",
        arguments: [2, 1]
    )
    func editedAfterDeadPullIntoOpenStore(generation: Int) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, dying) = try await Self.devicesBeforeDeadPull(fixture)
        // With the newest store as it was before the pull, 'of a' would seem to be deleted.
        if generation == 1 { _ = try await b.pull().value }
        let client = try await a.push().value.client
        let pull = dying.pull(from: client, generation: generation, replacement: .transaction)
        #expect(await code { try await pull.value } == .remoteUnavailable)
        #expect(
            try b.query("SELECT title FROM note") == (generation == 1 ? ["milk"] : ["milk", "of a"]),
            "the store was replaced"
        )
        try b.execute("INSERT INTO note VALUES (3, 'of b')")
        _ = try await a.synchronize().value
        // The file is the same as before the pull, so only the user can tell what is an edit.
        for _ in 0..<2 { #expect(await code { try await b.synchronize().value } == .unrelatedStore) }
        _ = try await b.synchronize(SynchronizationRequest(url: b.store, takenSide: .both)).value
        _ = try await a.synchronize().value
        for device in [a, b] {
            #expect(try device.query("SELECT title FROM note ORDER BY title") == ["milk", "of a", "of b"])
        }
    }

    @Test("A device whose next file would be too large for others to read publishes nothing, and names what to do")
    func tooLarge() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
        for device in [a, b, a] { _ = try await device.synchronize().value }
        let former = try #require(try a.synchronizationMemory())
        var memory = former
        for number in 0...2_048 { memory.removals["removed-\(number)"] = 0 }
        try a.setSynchronizationMemory(memory)
        try a.execute("INSERT INTO note (title) VALUES ('milk'), (hex(randomblob(70000)))")
        let files = try fixture.files()
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize().value }
        #expect(
            error?.code == .cannotWrite && error?.message.contains("Run storesync vacuum") == true,
            "\(error as Any)"
        )
        #expect(error?.message.contains("remove client") == false, "b has all edits of a")
        #expect(try fixture.files() == files)
        try a.setSynchronizationMemory(former)
        for device in [a, b] { #expect(try await device.synchronize().value.warnings.isEmpty) }
        #expect(try b.query("SELECT title FROM note").count == 2)
    }

    @Test("Names of tables may contain quotes")
    func quotedNames() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE \"no\"\"te\" (id INTEGER PRIMARY KEY, \"ti'tle\" TEXT)")
        try a.execute("INSERT INTO \"no\"\"te\" VALUES (1, 'milk')")
        for device in [a, b] { _ = try await device.synchronize().value }
        try b.execute("UPDATE \"no\"\"te\" SET \"ti'tle\" = 'oat milk'")
        for device in [b, a] { _ = try await device.synchronize().value }
        #expect(try a.query("SELECT * FROM \"no\"\"te\"") == b.query("SELECT * FROM \"no\"\"te\""))
        #expect(try a.query("SELECT \"ti'tle\" FROM \"no\"\"te\"") == ["oat milk"])
    }

    @Test("A device without a store is told that no device has synchronized the document, which was only pushed")
    func onlyPushed() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        _ = try await a.push().value
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .storeNotFound)
        #expect(error?.message.contains("no device has synchronized \(fixture.document)") == true)
    }

    @Test("A verification says that the document's origin is missing, and that a synchronization writes it again")
    func verifiedOrigin() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        try device.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        _ = try await device.synchronize().value
        #expect(try await device.verify().value.problems.isEmpty)
        let origin = try #require(try fixture.files().keys.first { $0.hasSuffix("origin.plist") })
        try FileManager.default.removeItem(at: fixture.share.appending(path: origin))
        let problems = try await device.verify().value.problems
        #expect(problems.map(\.code) == ["missing"] && problems[0].path.hasSuffix("origin.plist"))
        #expect(problems.first?.message.contains("synchronize on a device") == true)
        _ = try await device.synchronize().value
        #expect(try await device.verify().value.problems.isEmpty)
    }

    @Test("A store that doesn't come from the document's first store is refused, and stays as it is")
    func unrelated() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note VALUES (1, 'a')")
        try b.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note VALUES (1, 'b')")
        _ = try await a.synchronize().value
        #expect(await code { try await b.synchronize().value } == .unrelatedStore)
        #expect(try b.query("SELECT title FROM note") == ["b"])
    }

    @Test("H12: Large edits travel in files of their client's directory, and arrive at a device that joins later")
    func segments() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = (try fixture.device("a"), try fixture.device("b"), try fixture.device("c"))
        try a.execute("CREATE TABLE blob (id INTEGER PRIMARY KEY, bytes BLOB)")
        let client = try await a.synchronize().value.client
        _ = try await b.synchronize().value
        for round in 0..<4 {
            try a.execute("INSERT INTO blob (bytes) VALUES (randomblob(\(round == 2 ? 10 : 90_000)))")
            _ = try await a.synchronize().value
        }
        let segments = try fixture.files().keys.filter { $0.hasSuffix(".syncchg") }
        #expect(segments.count == 3)
        let directory = "\(fixture.application)/Documents/\(fixture.document)/SyncChanges/\(client)/"
        #expect(segments.allSatisfy { $0.hasPrefix(directory) }, "\(segments)")
        _ = try await b.synchronize().value
        _ = try await c.synchronize().value
        let expected = try a.query("SELECT id || hex(bytes) FROM blob ORDER BY id")
        #expect(try b.query("SELECT id || hex(bytes) FROM blob ORDER BY id") == expected)
        #expect(try c.query("SELECT id || hex(bytes) FROM blob ORDER BY id") == expected)
        let heads = try fixture.files().keys.filter { $0.contains("RecentSyncs") && $0.contains("-1.") == false }
        #expect(heads.filter { SyncHeadName(String($0.split(separator: "/").last ?? "")) != nil }.count == 3)
    }

    @Test("A device and its copy continue each other's change sets as long as they synchronize in turn")
    func copies() async throws {
        let (fixture, a, twin) = try await deviceAndCopy()
        for (device, title) in [(a, "a"), (twin, "twin"), (a, "later"), (twin, "last"), (a, "end"), (twin, "")] {
            if !title.isEmpty { try device.execute("INSERT INTO note (title) VALUES ('\(title)')") }
            _ = try await device.synchronize().value
        }
        let expected: Set = ["a", "twin", "later", "last", "end"]
        #expect(try Set(a.query("SELECT title FROM note")) == expected)
        #expect(try Set(twin.query("SELECT title FROM note")) == expected)
        // Each has read the other's head, and has nothing else to say.
        for device in [a, twin, a, twin] { #expect(try await device.synchronize().value.publishedBytes == 0) }
        #expect(try await a.verify().value.problems.isEmpty)
        withExtendedLifetime(fixture) {}
    }

    @Test(
        "Of a device and its copy that captured at once, one continues as another client, and no edit is lost",
        arguments: 0..<4,
        // The second size needs a file besides the head.
        [10, 70_000]
    )
    func twins(variant: Int, bytes: Int) async throws {
        let dies = Locked(false)
        let (fixture, a, twin) = try await deviceAndCopy { step in
            if step == "captured", dies.withLock(\.self) { throw CancellationError() }
        }
        try a.execute("INSERT INTO note (title, bytes) VALUES ('a', zeroblob(\(bytes)))")
        try twin.execute("INSERT INTO note (title, bytes) VALUES ('twin \(variant)', zeroblob(\(bytes)))")
        dies.withLock { $0 = true }
        await #expect(throws: CancellationError.self) { try await twin.synchronize().value }
        dies.withLock { $0 = false }
        _ = try await a.synchronize().value
        var refusals = 0
        for device in [twin, a, twin, a] {
            do {
                _ = try await device.synchronize().value
            } catch let error as StoreSyncError where error.code == .identityTwice {
                refusals += 1
                _ = try await device.synchronize().value
            }
        }
        #expect(refusals == 1)
        let expected: Set = ["a", "twin \(variant)"]
        #expect(try Set(a.query("SELECT title FROM note")) == expected)
        #expect(try Set(twin.query("SELECT title FROM note")) == expected)
        withExtendedLifetime(fixture) {}
    }

    @Test("If the shorter of two copies' logs counts, other devices don't take the storage for an older state")
    func shorterCopy() async throws {
        // Which of two change sets counts depends on their digests.
        for variant in 0..<64 {
            let dies = Locked(false)
            let (fixture, a, twin) = try await deviceAndCopy { step in
                // Its change set may have reached the storage by then.
                let isHead = step.hasPrefix("before write") && step.contains("RecentSyncs")
                guard isHead, dies.withLock(\.self) else { return }
                throw RemoteError(.unavailable, "The test's remote is away.")
            }
            let other = try fixture.device("other")
            _ = try await other.synchronize().value
            try twin.execute("INSERT INTO note (title) VALUES ('twin \(variant)')")
            dies.withLock { $0 = true }
            #expect(await code { try await twin.synchronize().value } == .remoteUnavailable)
            dies.withLock { $0 = false }
            try a.execute("INSERT INTO note (title) VALUES ('a')")
            try await a.recordChanges()
            try a.execute("INSERT INTO note (title) VALUES ('later')")
            #expect(try await a.synchronize().value.sequence == 2)
            _ = try await other.synchronize().value
            do {
                _ = try await twin.synchronize().value
            } catch let error as StoreSyncError where error.code == .identityTwice {
                continue
            }
            _ = try await other.synchronize().value
            #expect(await code { try await a.synchronize().value } == .identityTwice)
            for device in [a, twin, other] { _ = try await device.synchronize().value }
            let expected: Set = ["a", "later", "twin \(variant)"]
            for device in [a, twin, other] { #expect(try Set(device.query("SELECT title FROM note")) == expected) }
            let client = try twin.client()
            func heads() throws -> Int {
                try fixture.files().keys.compactMap { SyncHeadName(String($0.split(separator: "/").last ?? "")) }
                    .count { $0.client.rawValue == client }
            }
            #expect(try heads() == 2)
            try twin.execute("INSERT INTO note (title) VALUES ('last')")
            _ = try await twin.synchronize().value
            #expect(try heads() == 1)
            _ = try await other.synchronize().value
            return
        }
        Issue.record("The shorter log counted in no variant.")
    }

    /// A device that has synchronized, and a copy of its memory and its store.
    private func deviceAndCopy(
        hook: (@Sendable (String) throws -> Void)? = nil
    ) async throws -> (Fixture, Device, Device) {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        _ = try await a.synchronize().value
        try fixture.copy(a, to: "twin")
        return (fixture, a, try fixture.device("twin", hook: hook))
    }

    @Test("A store that was replaced by a copy, and a document that synchronizes, are refused")
    func refusals() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try a.execute(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note (title) VALUES ('milk')"
        )
        _ = try await a.synchronize().value
        let copy = try Data(contentsOf: a.store)
        try a.execute("UPDATE note SET title = 'bread'")
        _ = try await a.synchronize().value
        #expect(await code { try await a.push().value } == .documentSynchronizes)
        #expect(await code { try await a.pull(overwrite: true).value } == .documentSynchronizes)
        let stranger = try fixture.device("stranger")
        try stranger.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        #expect(await code { try await stranger.push().value } == .documentSynchronizes)
        #expect(await code { try await stranger.pull(overwrite: true).value } == .documentSynchronizes)
        #expect(try stranger.query("SELECT count(*) FROM note") == ["0"])
        _ = try await fixture.device("reader").pull().value
        try copy.write(to: a.store)
        #expect(await code { try await a.synchronize().value } == .storeReplaced)
        #expect(try a.query("SELECT title FROM note") == ["milk"])
    }

    @Test("Changes are recorded without the remote, so that each edit is published; a backup from before is noticed")
    func recording() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let away = try fixture.device("a") { _ in throw RemoteError(.unavailable, "The test's remote is away.") }
            .backend
        #expect(await code { try await a.recordChanges(over: away) } == .storeNotFound)
        _ = try await a.synchronize().value
        let backup = try Data(contentsOf: a.store)
        try a.execute("INSERT INTO note (title) VALUES ('first'), ('second')")
        #expect(try await a.recordChanges(over: away) == 2)
        #expect(try await a.recordChanges(over: away) == 0)
        try a.execute("UPDATE note SET title = 'changed' WHERE title = 'first'")
        let result = try await a.synchronize().value
        #expect(result.publishedChanges == 3 && result.sequence == 2)
        _ = try await b.synchronize().value
        #expect(try Set(b.query("SELECT title FROM note")) == ["changed", "second"])
        try backup.write(to: a.store)
        #expect(await code { try await a.recordChanges(over: away) } == .storeNotFound)
        #expect(await code { try await a.synchronize().value } == .storeReplaced)
    }

    @Test(
        "After a day without edits a device says what its store contains, also if its clock was ahead before",
        arguments: [0, 365 * 24.0]
    )
    func acknowledging(hoursAhead: TimeInterval) async throws {
        let fixture = try Fixture()
        let hour: TimeInterval = 60 * 60
        let (a, ahead) = (try fixture.device("a"), try fixture.device("b", clockError: hoursAhead * hour))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        for device in [a, ahead] { _ = try await device.synchronize().value }
        try ahead.execute("INSERT INTO note (title) VALUES ('of b')")
        _ = try await ahead.synchronize().value
        try a.execute("INSERT INTO note (title) VALUES ('of a')")
        _ = try await a.synchronize().value
        let soon = try await ahead.synchronize().value
        #expect(soon.applied["note"]?.inserted == 1 && soon.publishedBytes == 0)
        let later = try await fixture.device("b", clockError: 25 * hour).synchronize().value
        #expect(later.publishedBytes > 0 && later.publishedChanges == 0)
    }
}
