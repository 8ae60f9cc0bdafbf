import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Devices that synchronize a document for the first time at once", .timeLimit(.minutes(60)))
struct FirstSynchronizationTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"

    private func titles(_ device: Device) throws -> Set<String> { try Set(device.query("SELECT title FROM note")) }

    private func fill(_ devices: Device...) throws {
        for device in devices {
            try device.execute("\(Self.schema); INSERT INTO note (title) VALUES ('\(device.name)')")
        }
    }

    @Test("Before another device's origin is published, only a watch that knows what counts tries again")
    func beforeTheOrigin() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try fill(a, b)
        let dying = try fixture.device("a") { step in
            if step.hasPrefix("before write of"), step.hasSuffix("origin.plist") { throw CancellationError() }
        }
        await #expect(throws: CancellationError.self) { try await dying.synchronize().value }
        let files = try fixture.files().keys
        #expect(files.contains { $0.contains("/manifest-") } && !files.contains { $0.hasSuffix("origin.plist") })
        let request = SynchronizationRequest(url: b.store, takenSide: .both)
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize(request).value }
        #expect(error?.code == .busy && error?.code.isRetriedByWatch == true, "\(error as Any)")
        #expect(error?.description.contains("for the first time") == true)
        #expect(error?.description.contains("--resolves") == false && error?.description.contains("--take") == false)
        #expect(await code { try await b.synchronize().value } == .unrelatedStore, "the user says what counts")
        _ = try await a.synchronize().value
        #expect(await code { try await b.synchronize().value } == .unrelatedStore, "waiting hasn't changed that")
        _ = try await b.synchronize(request).value
        _ = try await a.synchronize().value
        #expect(try titles(a) == ["a", "b"] && titles(b) == ["a", "b"])
    }

    @Test("A device whose store is refused because another device's is there joins that device if its origin appears")
    func originAppears() async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try fixture.device("a")
        try fill(a)
        _ = try await a.synchronize().value
        let files = try fixture.files()
        let origin = try #require(files.first { $0.key.hasSuffix("origin.plist") })
        for path in files.keys where path.contains("/RecentSyncs/") && path.hasSuffix(".recentsync") {
            try fixture.put(nil, at: path)
        }
        try fixture.put(nil, at: origin.key)
        let (reads, place) = (Locked(0), fixture.share.appending(path: origin.key))
        let b = try fixture.device("b") { step in
            guard step.hasPrefix("before read of"), step.hasSuffix("origin.plist") else { return }
            let count = reads.withLock { count in
                count += 1
                return count
            }
            // The synchronization and its upload have found none by then.
            if count == 3 { try origin.value.write(to: place) }
        }
        try fill(b)
        _ = try await b.synchronize { $0.takenSide = .both }.value
        _ = try await a.synchronize().value
        #expect(try titles(a) == ["a", "b"] && titles(b) == ["a", "b"])
    }

    @Test("A device whose store an app creates during its download is told to try again")
    func createdMeanwhile() async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try fixture.device("a")
        try fill(a)
        _ = try await a.synchronize().value
        let app = try fixture.device("b")
        let b = try fixture.device("b") { step in
            if step == "before the rename" { try app.execute(Self.schema) }
        }
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.message.contains("Try again: that tells whether edits") == true, "\(error as Any)")
        #expect(try app.titles().isEmpty)
    }

    @Test("A store that doesn't come from the pushed one is refused for good, and the device is named that begins")
    func onlyPushed() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try fill(a, b)
        let client = try await a.push().value.client
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .unrelatedStore && error?.code.isRetriedByWatch == false, "\(error as Any)")
        let text = try #require(error?.description)
        #expect(text.contains("client \(client)") && text.contains("--take both") && !text.contains("--resolves"))
        // As the error says.
        _ = try await a.synchronize().value
        _ = try await b.synchronize { $0.takenSide = .both }.value
        _ = try await a.synchronize().value
        #expect(try titles(a) == ["a", "b"] && titles(b) == ["a", "b"])
    }

    @Test("A store that lacks edits of a pushed one begins no document, and the other client is named")
    func diverged() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try fill(a)
        let client = try await a.push().value.client
        _ = try await b.pull().value
        for device in [a, b] { try device.execute("INSERT INTO note (title) VALUES ('new of \(device.name)')") }
        _ = try await a.push().value
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(
            error?.code == .diverged && error?.description.contains("of client \(client)") == true,
            "\(error as Any)"
        )
        #expect(try !fixture.files().keys.contains { $0.hasSuffix("origin.plist") })
        // As the error says.
        _ = try await b.push(resolves: true).value
        _ = try await b.synchronize().value
        #expect(await code { try await a.synchronize().value } == .unrelatedStore)
        _ = try await a.synchronize { $0.takenSide = .both }.value
        _ = try await b.synchronize().value
        #expect(try titles(a) == ["a", "new of a", "new of b"] && titles(b) == titles(a))
    }

    @Test("A store that was pushed and that later pushes continue begins no document")
    func superseded() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = (try fixture.device("a"), try fixture.device("b"), try fixture.device("c"))
        try fill(a)
        _ = try await a.push().value
        _ = try await b.pull().value
        try a.execute("INSERT INTO note (title) VALUES ('new')")
        _ = try await a.push().value
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .diverged && error?.description.contains("Pull first") == true, "\(error as Any)")
        #expect(try !fixture.files().keys.contains { $0.hasSuffix("origin.plist") })
        // As the error says.
        _ = try await b.pull().value
        for device in [b, c, a] { _ = try await device.synchronize().value }
        for device in [a, b, c] { #expect(try titles(device) == ["a", "new"]) }
    }

    @Test("A copy of the store with which a document begins is in step, although no record tells where it comes from")
    func copied() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try fill(a)
        try FileManager.default.copyItem(at: a.store, to: b.store)
        _ = try await a.synchronize().value
        try await a.synchronize(after: "INSERT INTO note (title) VALUES ('new')")
        let result = try await b.synchronize().value
        #expect(result.transfer == nil && result.applied["note"]?.inserted == 1 && result.publishedChanges == 0)
        try b.execute("UPDATE note SET title = title || ' of b'")
        for device in [b, a] { _ = try await device.synchronize().value }
        #expect(try titles(a) == ["a of b", "new of b"] && titles(b) == titles(a))
    }

    @Test(
        "A store that was downloaded as a baseline that newer ones have replaced has no edits, or those can't be found"
    )
    func formerBaseline() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let (c, d) = (try fixture.device("c"), try fixture.device("d"))
        try fill(a)
        for device in [a, b] { _ = try await device.synchronize().value }
        func renew(_ title: String) async throws {
            try await b.synchronize(after: "UPDATE note SET title = '\(title)' WHERE title <> 'kept'")
            _ = try await b.vacuum().value
        }
        try b.execute("INSERT INTO note (title) VALUES ('kept')")
        try await renew("1")
        for device in [c, d] { _ = try await device.pull().value }
        try d.execute("UPDATE note SET title = 'of d' WHERE title = '1'")
        for title in ["2", "3", "4"] { try await renew(title) }
        #expect(try await c.synchronize().value.publishedChanges == 0)
        #expect(await code { try await d.synchronize().value } == .noUploadedStore)
        _ = try await b.synchronize().value
        for device in [b, c] { #expect(try titles(device) == ["4", "kept"]) }
        _ = try await d.synchronize { $0.takenSide = .both }.value
        #expect(try titles(d).isSuperset(of: ["of d", "kept"]))
        #expect(try d.query("SELECT count(*) FROM note WHERE title = 'kept'") == ["1"])
    }

    @Test("Another store at the path of a pulled one isn't taken for that one", arguments: [TakenSide.remote, .both])
    func otherFile(side: TakenSide) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try fill(a)
        _ = try await a.push().value
        _ = try await b.pull().value
        _ = try await a.synchronize().value
        try FileManager.default.removeItem(at: b.store)
        try fill(b)
        #expect(await code { try await b.synchronize().value } == .unrelatedStore)
        _ = try await b.synchronize { $0.takenSide = side }.value
        _ = try await a.synchronize().value
        #expect(try titles(a) == (side == .both ? ["a", "b"] : ["a"]) && titles(b) == titles(a))
    }

    /// A device that has synchronized, and a second one, which has pulled its store before: for that, the document begins only
    /// when it writes a file whose path contains `part`.
    private func devices(beginningAtWriteOf part: String) async throws -> (Device, Device) {
        let fixture = try Fixture(password: "correct horse")
        let a = try fixture.device("a")
        try fill(a)
        _ = try await a.push().value
        _ = try await fixture.device("b").pull().value
        let before = try Set(fixture.files().keys)
        _ = try await a.synchronize().value
        let begun = try fixture.files().filter { !before.contains($0.key) }
        for path in begun.keys { try fixture.put(nil, at: path) }
        let b = try fixture.device("b") { step in
            guard step.hasPrefix("before write of"), step.contains(part) else { return }
            for (path, bytes) in begun { try fixture.put(bytes, at: path) }
        }
        return (a, b)
    }

    @Test("A long push isn't published if another device has begun to synchronize the document meanwhile")
    func beginningMeanwhile() async throws {
        let (a, b) = try await devices(beginningAtWriteOf: "/WholeStore/")
        try b.execute("INSERT INTO note (title) VALUES ('b'); CREATE TABLE photo (id INTEGER PRIMARY KEY, bytes BLOB)")
        try b.execute("INSERT INTO photo (bytes) VALUES (randomblob(\(RemoteContent.chunkSize)))")
        #expect(await code { try await b.push().value } == .documentSynchronizes)
        try b.execute("DROP TABLE photo")
        for device in [b, a] { _ = try await device.synchronize().value }
        #expect(try titles(a) == ["a", "b"] && titles(b) == titles(a))
        #expect(try a.query("SELECT count(*) FROM note") == ["2"])
    }

    @Test("A short push that is published while another device begins the document adds its edits at the next sync")
    func beginningDuringShortPush() async throws {
        let (a, b) = try await devices(beginningAtWriteOf: "/manifest-")
        try b.execute("INSERT INTO note (title) VALUES ('b'); UPDATE note SET title = 'a of b' WHERE title = 'a'")
        _ = try await b.push().value
        try b.execute("INSERT INTO note (title) VALUES ('later')")
        #expect(try await b.synchronize().value.publishedChanges == 3)
        _ = try await a.synchronize().value
        for device in [a, b] {
            #expect(try device.titles() == ["a of b", "b", "later"])
        }
    }

    @Test(
        "A store that no device could begin with begins no document, and is published once its rows are corrected",
        arguments: [
            // Half of a surrogate pair.
            (
                "PRAGMA encoding = 'UTF-16le'; \(schema); INSERT INTO note (title) VALUES ('a'), (CAST(x'00D8' AS TEXT))",
                StoreSyncError.Code.unsupportedFormat, "DELETE FROM note WHERE id = 2"
            ),
            // Two rows of one key, which the index doesn't have.
            (
                """
                CREATE TABLE note (title TEXT NOT NULL, id INTEGER);
                CREATE UNIQUE INDEX titles ON note (title) WHERE id < 0;
                INSERT INTO note VALUES ('a', 1), ('a', 2);
                PRAGMA writable_schema = ON;
                UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX titles ON note (title)' WHERE name = 'titles';
                """,
                .corrupt, "DROP INDEX titles; DELETE FROM note WHERE id = 2; CREATE UNIQUE INDEX titles ON note (title)"
            ),
        ]
    )
    func unreadableRows(store: String, code: StoreSyncError.Code, correction: String) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(store)
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize().value }
        #expect(error?.code == code, "\(error as Any)")
        #expect(error?.message.contains("baseline") == false, "the error names the store: \(error as Any)")
        #expect(try !fixture.files().keys.contains { $0.hasSuffix("origin.plist") })
        try a.execute(correction)
        for device in [a, b] { _ = try await device.synchronize().value }
        #expect(try titles(a) == ["a"] && titles(b) == ["a"])
    }
}
