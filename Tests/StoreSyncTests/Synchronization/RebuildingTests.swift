import Foundation
import GRDB
import Operations
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Building a device's replica again, and previews", .timeLimit(.minutes(60)))
struct RebuildingTests {
    /// Two devices; the second has other numbers than the first, and an edit that it captured and didn't publish.
    private func devices(_ fixture: Fixture) async throws -> (Device, Device) {
        let dies = Locked(false)
        let a = try fixture.device("a")
        let b = try fixture.device("b") { step in
            if step == "captured", dies.withLock(\.self) { throw CancellationError() }
        }
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER NOT NULL DEFAULT 0)")
        _ = try await a.synchronize().value
        _ = try await b.synchronize().value
        try a.execute("INSERT INTO note (title) VALUES ('a1'), ('a2'), ('a3')")
        try b.execute("INSERT INTO note (title) VALUES ('b1'), ('b2')")
        for device in [a, b, a, b] { _ = try await device.synchronize().value }
        try b.execute("UPDATE note SET done = 1 WHERE title = 'a2'; INSERT INTO note (title) VALUES ('captured')")
        dies.withLock { $0 = true }
        await #expect(throws: CancellationError.self) { try await b.synchronize().value }
        dies.withLock { $0 = false }
        try b.execute("DELETE FROM note WHERE title = 'a3'; INSERT INTO note (title) VALUES ('new')")
        return (a, b)
    }

    private func rows(_ device: Device) throws -> [String] {
        try device.query("SELECT id || ' ' || title || ' ' || done FROM note ORDER BY id")
    }

    private func titles(_ device: Device) throws -> [String] {
        try device.query("SELECT title || ' ' || done FROM note ORDER BY 1")
    }

    private func rebuild(_ device: Device) async throws -> Synchronization {
        return try await device.synchronize { $0.rebuildsReplica = true }.value
    }

    @Test("A replica that is built again keeps numbers, and edits that aren't published")
    func rebuilding() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(fixture)
        let former = try rows(b)
        let result = try await rebuild(b)
        #expect(result.conflicts == 0 && result.applied.isEmpty)
        #expect(!result.warnings.contains { $0.contains("couldn't be read") }, "\(result.warnings)")
        #expect(try rows(b) == former)
        let replica = try DatabaseQueue(path: #require(b.state.replicas().first).path)
        let client = try b.client()
        let origins = try await replica.read {
            try Int.fetchAll($0, sql: "SELECT origin FROM sets WHERE client = ?", arguments: [client])
        }
        try replica.close()
        #expect(origins == [2, 2, 2], "they are known to be captured here, though they were also read from the remote")
        _ = try await a.synchronize().value
        #expect(try titles(a) == ["a1 0", "a2 1", "b1 0", "b2 0", "captured 0", "new 0"])
        #expect(try titles(b) == titles(a))
        try b.execute("UPDATE note SET done = 2 WHERE title = 'a1'")
        #expect(try await b.synchronize().value.publishedChanges == 1)
        #expect(try await rebuild(a).applied.isEmpty == false)
        #expect(try titles(b) == titles(a))
        #expect(try await a.synchronize().value.publishedChanges == 0)
    }

    @Test("A schema whose change the app has taken back is the newest once the user says so, also for other devices")
    func schemaTakenBack() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        for device in [a, b] { try device.execute("CREATE UNIQUE INDEX titles ON note (title)") }
        try a.execute("INSERT INTO note (title) VALUES ('milk')")
        for device in [a, b] { _ = try await device.synchronize().value }
        let titles = "SELECT title FROM note ORDER BY title"

        try a.execute("DROP INDEX titles; INSERT INTO note (title) VALUES ('bread')")
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize().value }
        #expect(error?.code == .newerSchema && error?.message.contains("--rebuild") == true, "\(error as Any)")
        let result = try await rebuild(a)
        #expect(result.publishedChanges == 1 && result.conflicts == 0)
        #expect(!result.warnings.contains { $0.contains("couldn't be read") }, "\(result.warnings)")
        #expect(try a.query(titles) == ["bread", "milk"])

        // The app of the other device isn't updated yet, but has had this schema, too.
        _ = try await b.synchronize().value
        #expect(try b.query(titles) == ["bread", "milk"])
        try b.execute("DROP INDEX titles; INSERT INTO note (title) VALUES ('beer')")
        for device in [b, a] {
            let warnings = try await device.synchronize().value.warnings
            #expect(!warnings.contains { $0.contains("newer version of the app") }, "\(warnings)")
        }
        for device in [a, b] { #expect(try device.query(titles) == ["beer", "bread", "milk"]) }
    }

    @Test("Replicas that merged the same edits to different results are named; built again, they are equal")
    func differing() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(
            sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER NOT NULL DEFAULT 0)"
        )
        #expect(try await edit(a, b).isEmpty)
        // As if one of them had merged by other rules.
        let url = try #require(b.state.replicas().first)
        let replica = try DatabaseQueue(path: url.path)
        try await replica.write { db in
            try db.execute(sql: "UPDATE sets SET sum = zeroblob(32) WHERE sum IS NOT NULL")
        }
        try replica.close()
        let warnings = try await edit(a, b)
        #expect(!warnings.isEmpty && warnings.allSatisfy { $0.contains("their stores differ") }, "\(warnings)")
        for device in [a, b] { _ = try await rebuild(device) }
        #expect(try await edit(a, b).isEmpty)
        #expect(try titles(a) == titles(b))
    }

    /// Lets devices edit what they have received, in turn, so that edits become stable; returns their warnings.
    private func edit(_ devices: Device...) async throws -> [String] {
        var warnings: [String] = []
        for device in devices + devices + devices {
            warnings += try await device.synchronize().value.warnings
            try device.execute("INSERT INTO note (title) VALUES ('\(device.name)')")
            warnings += try await device.synchronize().value.warnings
        }
        warnings += try await devices[0].synchronize().value.warnings
        return warnings
    }

    /// What is damaged in a replica's file.
    enum Damage: CaseIterable {
        case pages, images
    }

    @Test("A replica that is damaged is named, and built again without losing a row", arguments: Damage.allCases)
    func damaged(_ damage: Damage) async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        let replica = try #require(b.state.replicas().first)
        switch damage {
        case .pages: try Data(repeating: 7, count: 8192).write(to: replica)
        case .images:
            let database = try DatabaseQueue(path: replica.path)
            try await database.write {
                try $0.execute(sql: "UPDATE rows SET image = substr(image, 1, length(image) - 1)")
            }
            try database.close()
        }
        let request = SynchronizationRequest(url: b.store)
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize(request).value }
        #expect(error?.code == .corrupt && error?.message.contains("--rebuild") == true, "\(error as Any)")
        let warnings = try await rebuild(b).warnings
        #expect(warnings.contains { $0.contains("couldn't be read") && $0.contains("--take both") }, "\(warnings)")
        _ = try await a.synchronize().value
        #expect(try titles(a) == titles(b))
        // The document's value stays, the store's is logged; a row that the store lacked came back.
        #expect(try titles(a) == ["a1 0", "a2 0", "a2 1", "a3 0", "b1 0", "b2 0", "captured 0", "new 0"])
        #expect(try await b.synchronize().value.publishedChanges == 0)
    }

    @Test(
        "A replica that the file system can't find is neither created nor taken for missing",
        arguments: [false, true]
    )
    func unreachable(isPreview: Bool) async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let replica = try #require(a.state.replicas().first).path
        try FileManager.default.moveItem(atPath: replica, toPath: replica + ".moved")
        // A link to itself is an error for every user. Permissions wouldn't hold back root.
        try FileManager.default.createSymbolicLink(atPath: replica, withDestinationPath: replica)
        var request = SynchronizationRequest(url: a.store)
        request.isPreview = isPreview
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize(request).value }
        let name = URL(filePath: replica).lastPathComponent
        #expect(error?.code == .cannotWrite && error?.message.contains("\(name) can't be read") == true)
        try FileManager.default.removeItem(atPath: replica)
        try FileManager.default.moveItem(atPath: replica + ".moved", toPath: replica)
        try a.execute("INSERT INTO note (title) VALUES ('new')")
        #expect(try await a.synchronize().value.publishedChanges == 1)
    }

    @Test("A replica isn't built again from a storage that was put back to an older state")
    func putBack() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(fixture)
        _ = try await b.synchronize().value
        let former = try fixture.files()
        try a.execute("INSERT INTO note (title) VALUES ('later')")
        for device in [a, b] { _ = try await device.synchronize().value }
        let (present, store) = (try fixture.files(), try rows(b))
        try fixture.restore(former)
        #expect(await code { try await rebuild(b) } == .rolledBack)
        #expect(try rows(b) == store)
        try fixture.restore(present)
        _ = try await rebuild(b)
        #expect(try rows(b) == store)
        _ = try await a.synchronize().value
        #expect(try titles(a) == titles(b))
    }

    @Test("A preview says what a synchronization would do, and changes nothing")
    func preview() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(fixture)
        var request = SynchronizationRequest(url: a.store)
        request.isPreview = true
        try a.execute("UPDATE note SET title = 'of a' WHERE title = 'a1'")
        _ = try await b.synchronize().value
        let (files, store) = (try fixture.files(), try Data(contentsOf: a.store))
        let preview = try await a.synchronize(request).value
        #expect(preview.publishedChanges == 1)
        let counts = try #require(preview.applied["note"])
        #expect(counts.inserted == 2 && counts.updated == 1 && counts.deleted == 1)
        #expect(try fixture.files() == files)
        #expect(try Data(contentsOf: a.store) == store)
        let result = try await a.synchronize().value
        #expect(result.applied == preview.applied && result.publishedChanges == preview.publishedChanges)
        let c = try fixture.device("c")
        request.url = c.store
        #expect(await code { try await c.synchronize(request).value } == .noUploadedStore)
    }

    @Test("If edits were removed from the log, a preview says only that, and counts the edits of this device")
    func previewWithGaps() async throws {
        let fixture = try Fixture()
        let a = try #require(try await fixture.devicesWithNotes("a").first)
        let dies = Locked(true)
        let c = try fixture.device("c") { step in
            guard dies.withLock(\.self), step.hasPrefix("before write of"), step.hasSuffix(".recentsync") else {
                return
            }
            throw CancellationError()
        }
        // It has a replica then, and no device knows of it.
        await #expect(throws: CancellationError.self) { try await c.synchronize().value }
        dies.withLock { $0 = false }
        for _ in 0..<3 {
            try a.execute("INSERT INTO note (title, bytes) VALUES ('of a', randomblob(70000))")
            _ = try await a.vacuum().value
        }
        try c.execute("INSERT INTO note (title) VALUES ('of c'), ('of c'), ('of c')")
        let preview = try await c.synchronize { $0.isPreview = true }.value
        let warning = try #require(preview.warnings.first)
        #expect(preview.warnings.count == 1 && warning.contains("will start over"), "\(preview.warnings)")
        #expect(preview.waitingFor.isEmpty && preview.publishedChanges == 3)
        for device in [c, a] { _ = try await device.synchronize().value }
        let titles = ["first", "of a", "of a", "of a", "of c", "of c", "of c"]
        for device in [a, c] { #expect(try device.titles() == titles) }
    }
}
