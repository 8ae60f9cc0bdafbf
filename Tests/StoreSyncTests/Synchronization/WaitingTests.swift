import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Waiting for edits that the storage has lost", .timeLimit(.minutes(60)))
struct WaitingTests {
    private static let hour: TimeInterval = 60 * 60

    /// Files that the storage may lose of a client.
    enum Files: CaseIterable { case segments, segmentsAndHead }

    /// Removes files of a device's client from the storage.
    private func lose(_ files: Files, of device: Device, _ fixture: Fixture) throws {
        let client = try device.client()
        for path in try fixture.files().keys {
            let isHead = files == .segmentsAndHead && path.contains("RecentSyncs/\(client)-")
            if isHead || path.contains("SyncChanges/\(client)/") { try fixture.put(nil, at: path) }
        }
    }

    /// Lets a device write edits, and another one a baseline that contains them; the storage loses their files.
    private func writeAndLose(_ files: Files, of a: Device, baselineBy b: Device, _ fixture: Fixture) async throws {
        for number in 1...2 {
            try a.insert("a \(number)", bytes: 70_000)
            _ = try await a.synchronize().value
        }
        _ = try await b.synchronize().value
        try b.execute("UPDATE note SET title = 'seen by b' WHERE title = 'a 1'")
        #expect(try await b.vacuum().value.isBaselineWritten)
        try lose(files, of: a, fixture)
    }

    @Test("A client whose edits are missing is waited for although its head is there, and the advice of a check helps")
    func namedByHead() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try a.insert("large", bytes: 70_000)
        _ = try await a.synchronize().value
        try lose(.segments, of: a, fixture)
        let author = try a.client()
        for isPreview in [true, false] {
            #expect(try await b.synchronize { $0.isPreview = isPreview }.value.waitingFor.map(\.rawValue) == [author])
        }
        let problems = try await a.verify().value.problems
        #expect(problems.count == 1 && problems[0].message.contains("storesync vacuum on client \(author)'s device"))
        _ = try await a.vacuum().value
        #expect(try await b.synchronize().value.waitingFor.isEmpty)
        #expect(try b.titles() == ["first", "large"])
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("A device gets edits whose file is lost from another device's baseline at once, as the warning says")
    func rebuildingAtOnce() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        try await writeAndLose(.segments, of: all[0], baselineBy: all[1], fixture)
        var request = SynchronizationRequest(url: all[2].store)
        let warnings = try await all[2].synchronize(request).value.warnings
        #expect(warnings.contains { $0.contains("at once with --rebuild") }, "\(warnings)")
        #expect(try all[2].titles() == ["first"])
        request.rebuildsReplica = true
        #expect(try await all[2].synchronize(request).value.waitingFor.isEmpty)
        #expect(try all[2].titles() == ["a 2", "first", "seen by b"])
    }

    @Test("After a day, a device takes edits from a baseline, and keeps its own", arguments: Files.allCases)
    func taking(files: Files) async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        let (b, c) = (all[1], all[2])
        try await writeAndLose(files, of: all[0], baselineBy: b, fixture)
        try c.insert("published by c")
        let result = try await c.synchronize().value
        // The head that is left names the missing edits.
        let waiting = files == .segments ? 2 : 1
        #expect(result.waitingFor.count == waiting && result.warnings.isEmpty == (files == .segmentsAndHead))
        try c.insert("new")
        let early = try fixture.device("c", clockError: 23 * Self.hour)
        #expect(try await early.synchronize().value.waitingFor.count == waiting)
        #expect(try c.titles() == ["first", "new", "published by c"])
        try c.insert("unpublished")
        let late = try fixture.device("c", clockError: 25 * Self.hour)
        let outcome = try await late.synchronize().value
        #expect(outcome.waitingFor.isEmpty && outcome.warnings.isEmpty && outcome.publishedChanges == 1)
        #expect(try late.synchronizationMemory()?.waitingSince == nil)
        let expected = ["a 2", "first", "new", "published by c", "seen by b", "unpublished"]
        #expect(try c.titles() == expected)
        _ = try await b.synchronize().value
        #expect(try b.titles() == expected)
        #expect(try await late.synchronize().value.publishedChanges == 0)
    }

    @Test("A restored device is told to start over with a baseline if all others have forgotten what it lacks")
    func restored() async throws {
        let fixture = try Fixture()
        let (a, b, c) = try await fixture.devicesWithNotes("a", "b", "c").triple
        try fixture.copy(c, to: "backup")
        for number in 1...2 {
            try a.insert("a \(number)", bytes: 70_000)
            for device in [a, b, c, a, b, c] {
                _ = try await device.synchronize().value
                try device.insert(device.name)
                _ = try await device.synchronize().value
            }
        }
        _ = try await b.vacuum().value
        try lose(.segments, of: a, fixture)
        let restored = try fixture.device("backup")
        #expect(try await restored.synchronize().value.waitingFor.isEmpty == false)
        let store = try restored.titles()
        try restored.insert("unpublished")
        let late = try fixture.device("backup", clockError: 25 * Self.hour)
        let warnings = try await late.synchronize().value.warnings
        #expect(warnings.contains { $0.contains("more than a day") }, "\(warnings)")
        #expect(try restored.titles() == (store + ["unpublished"]).sorted())
        // It waits for another day until it looks again.
        let again = try await late.synchronize().value.warnings
        #expect(!again.isEmpty && !again.contains { $0.contains("more than a day") }, "\(again)")
        var request = SynchronizationRequest(url: restored.store)
        request.rebuildsReplica = true
        _ = try await late.synchronize(request).value
        for device in [b, c, a] { _ = try await device.synchronize().value }
        #expect(try restored.titles() == b.titles() && b.titles().contains("unpublished"))
    }

    @Test("Two devices that each lack what only the other one still has get it from each other's baselines")
    func mutually() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c", "d")
        let (a, b, c, d) = (all[0], all[1], all[2], all[3])
        for (author, receiver) in [(c, a), (d, b)] {
            try author.insert("of \(author.name), only on \(receiver.name)", bytes: 70_000)
            for device in [author, receiver] { _ = try await device.synchronize().value }
            // Later edits have seen it.
            try receiver.insert("of \(receiver.name)")
            _ = try await receiver.synchronize().value
            try lose(.segmentsAndHead, of: author, fixture)
        }
        for device in [a, b] { #expect(try await device.synchronize().value.waitingFor.isEmpty == false) }
        for day in 1...2 {
            for name in ["a", "b"] {
                let later = try fixture.device(name, clockError: Double(25 * day) * Self.hour)
                let warnings = try await later.synchronize().value.warnings
                #expect(warnings.isEmpty, "\(warnings)")
            }
        }
        for device in [a, b] {
            #expect(try device.titles() == ["first", "of a", "of b", "of c, only on a", "of d, only on b"])
            #expect(try device.synchronizationMemory()?.waitingSince == nil)
        }
    }

    @Test("A device that misses edits notes no removal for a day, and then lets all edits count that others have seen")
    func removal() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c", "d")
        let (a, b, c, d) = (all[0], all[1], all[2], all[3])
        _ = try await c.synchronize().value
        try d.insert("of d, only on b", bytes: 70_000)
        for device in [d, b] { _ = try await device.synchronize().value }
        // A later edit has seen it.
        try await b.synchronize(after: "UPDATE note SET title = 'of d, seen by b' WHERE title = 'of d, only on b'")
        try lose(.segmentsAndHead, of: d, fixture)
        let removed = try RemoteIdentifier(d.client())
        _ = try await a.remove(removed, from: fixture.document).value
        for hours in [0, 23.0] {
            let device = try fixture.device("c", clockError: hours * Self.hour)
            _ = try await device.vacuum().value
            #expect(try await device.synchronize().value.waitingFor.isEmpty == false)
            #expect(try device.synchronizationMemory()?.removals == [:])
        }
        let late = try fixture.device("c", clockError: 25 * Self.hour)
        _ = try await late.vacuum().value
        // The number of the edit that b has seen, and c has not.
        let removals = try late.synchronizationMemory()?.removals
        #expect(removals == [removed.rawValue: 1])
        for device in [a, b] { _ = try await device.vacuum().value }
        for name in ["a", "c"] {
            let later = try fixture.device(name, clockError: 51 * Self.hour)
            _ = try await later.synchronize().value
        }
        for device in [a, b, c] {
            let titles = try device.titles()
            #expect(titles == ["first", "of d, seen by b"], "\(device.name)")
        }
    }

    @Test("A removed client's damaged head puts its removal off for a day; a vacuum says so, and then notes it")
    func removalOfDamagedClient() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        let (a, c) = (all[0], all[2])
        try c.insert("of c")
        for device in [c, a] { _ = try await device.synchronize().value }
        try c.insert("damaged")
        _ = try await c.synchronize().value
        let client = try RemoteIdentifier(c.client())
        let head = try #require(try fixture.files().first { $0.key.contains("RecentSyncs/\(client)-") })
        try fixture.put(head.value.prefix(head.value.count / 2), at: head.key)
        _ = try await a.remove(client, from: fixture.document).value
        let early = try await a.vacuum().value
        #expect(
            early.isBaselineWritten && early.warnings.contains { $0.contains("client \(client), which was removed") }
        )
        #expect(try a.synchronizationMemory()?.removals == [:])
        let late = try fixture.device("a", clockError: 25 * Self.hour)
        // The files are looked for in baselines once a day, and a vacuum may come after that.
        _ = try await late.synchronize().value
        let warnings = try await late.vacuum().value.warnings
        #expect(!warnings.contains { $0.contains("which was removed") }, "\(warnings)")
        #expect(try late.synchronizationMemory()?.removals == [client.rawValue: 1])
    }

    @Test(
        "A replica isn't built again without edits of a removed client that this device has, until a baseline has them"
    )
    func rebuildingWithoutRemovedClient() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await fixture.devicesWithNotes("a", "b", "c").triple
        try c.insert("of c", bytes: 70_000)
        for device in [c, a, b] { _ = try await device.synchronize().value }
        try lose(.segmentsAndHead, of: c, fixture)
        let client = try RemoteIdentifier(c.client())
        _ = try await b.remove(client, from: fixture.document).value
        var request = SynchronizationRequest(url: a.store)
        request.rebuildsReplica = true
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize(request).value }
        #expect(error?.code == .remoteUnavailable && error?.message.contains("storesync vacuum") == true)
        #expect(try a.titles() == ["first", "of c"])
        _ = try await b.vacuum().value
        _ = try await a.synchronize(request).value
        for device in [b, a] { _ = try await device.synchronize().value }
        #expect(try a.titles() == ["first", "of c"] && b.titles() == a.titles())
    }

    @Test("A device that waits for days writes one baseline for what it has, and no other until that is more")
    func baselines() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await fixture.devicesWithNotes("a", "b", "c").triple
        try a.insert("of a, only on b", bytes: 70_000)
        for device in [a, b] { _ = try await device.synchronize().value }
        try b.insert("of b")
        _ = try await b.synchronize().value
        try lose(.segmentsAndHead, of: a, fixture)
        try c.insert("of c")
        _ = try await c.synchronize().value
        var uploads: [Int] = []
        for day in 1...4 {
            let later = try fixture.device("c", clockError: Double(25 * day) * Self.hour)
            if day == 4 { try later.insert("later") }
            let result = try await later.synchronize().value
            #expect(result.waitingFor.isEmpty == false)
            uploads.append(try fixture.files().keys.count { $0.contains("WholeStore/") })
        }
        #expect(uploads[1] == uploads[0] && uploads[2] == uploads[0] && uploads[3] > uploads[0], "\(uploads)")
    }
}
