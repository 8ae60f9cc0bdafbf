import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Files that a storage shows late, and replicas that were lost", .timeLimit(.minutes(60)))
struct LateFilesTests {
    /// Lets devices publish edits that all have seen.
    private func settle(_ devices: [Device]) async throws {
        for _ in 0..<3 {
            for device in devices {
                _ = try await device.synchronize().value
                try device.insert(device.name)
                _ = try await device.synchronize().value
            }
        }
    }

    /// Hides the files of a device's client, and returns them.
    private func hideFiles(of device: Device, _ fixture: Fixture) throws -> [String: Data] {
        let paths = try fixture.syncFiles(of: device)
        let hidden = try fixture.files().filter { paths.contains($0.key) }
        #expect(!hidden.isEmpty)
        for path in hidden.keys { try fixture.put(nil, at: path) }
        return hidden
    }

    private func removeReplica(of device: Device) throws {
        let replica = try #require(device.state.replicas().first)
        try FileManager.default.removeItem(at: replica)
    }

    private func show(_ files: [String: Data], _ fixture: Fixture) throws {
        for (path, bytes) in files { try fixture.put(bytes, at: path) }
    }

    @Test("A head that its device replaces after the listing is read under its next name")
    func replacedHead() async throws {
        let fixture = try Fixture()
        let a = try await fixture.devicesWithNotes("a", "b")[0]
        try a.insert("milk")
        _ = try await a.synchronize().value
        let listed = try fixture.files()
        try a.insert("tea")
        _ = try await a.synchronize().value
        let replaced = Locked<[String: Data]?>(try fixture.files())
        try fixture.restore(listed)
        let client = try a.client()
        let b = try fixture.device("b") { step in
            guard step.hasPrefix("before read of "), step.contains("RecentSyncs/\(client)-"),
                let files = replaced.withLock({ $0.take() })
            else { return }
            try fixture.restore(files)
        }
        #expect(try await b.synchronize().value.warnings.isEmpty)
        #expect(try b.titles() == ["first", "milk", "tea"])
        #expect(replaced.withLock { $0 } == nil)
    }

    @Test("A new device keeps its user's edits while files are late on which others have built")
    func joining() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        try await settle(all)
        let late = try hideFiles(of: all[2], fixture)
        let d = try fixture.device("d")
        _ = try await d.synchronize().value
        try d.insert("of d")
        let store = try d.titles()
        for _ in 0..<3 {
            let result = try await d.synchronize().value
            #expect(result.publishedChanges == 0 && !result.isComplete)
            #expect(try result.waitingFor.map(\.rawValue).contains(all[2].client()), "\(result)")
            #expect(result.warnings.contains { $0.contains("stays in its store") }, "\(result.warnings)")
            #expect(try d.titles() == store, "the edit stays")
        }
        let former = try d.client()
        try show(late, fixture)
        #expect(try await d.synchronize().value.publishedChanges == 1)
        for device in all + [d] { _ = try await device.synchronize().value }
        for device in all + [d] { #expect(try device.titles() == all[0].titles()) }
        #expect(try d.titles().contains("of d") && d.client() == former)
    }

    @Test("A file that is too large is named, and holds up no other client")
    func tooLarge() async throws {
        let fixture = try Fixture()
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        try await all[1].synchronize(after: "INSERT INTO note (title) VALUES (hex(randomblob(50000)))")
        let client = try all[1].client()
        let segment = try #require(fixture.files().keys.first { $0.contains("SyncChanges/\(client)/") })
        let former = try fixture.files()[segment]
        let url = fixture.share.appending(path: segment)
        // A file without blocks on the disk.
        try FileHandle(forWritingTo: url).truncate(atOffset: UInt64(1 << 30) + 1)
        try all[0].insert("of a")
        _ = try await all[0].synchronize().value
        let result = try await all[2].synchronize().value
        #expect(result.warnings.contains { $0.contains(segment) && $0.contains("bytes") }, "\(result.warnings)")
        #expect(!result.isComplete)
        #expect(try all[2].titles().contains("of a"))
        try fixture.put(former, at: segment)
        for device in all { _ = try await device.synchronize().value }
        #expect(try all[2].titles() == all[1].titles())
    }

    @Test("Many large edits travel in several files")
    func segments() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b] { _ = try await device.synchronize().value }
        for number in 0..<3 {
            try a.insert("\(number)", bytes: 1_800_000)
            try await a.recordChanges()
        }
        #expect(try await a.synchronize().value.publishedChanges == 3)
        #expect(try fixture.files().keys.filter { $0.hasSuffix(".syncchg") }.count == 2)
        _ = try await b.synchronize().value
        #expect(try b.titles() == ["0", "1", "2"])
    }

    @Test("Files of an interrupted publication are created again if the storage loses them with the head before them")
    func lostSegmentsOfInterruptedPublication() async throws {
        let fixture = try Fixture(password: "correct horse")
        let isCreated = Locked<Bool?>(nil)
        let a = try fixture.device("a") { step in
            let dies = isCreated.withLock { isCreated in
                let isFile = step.hasPrefix("after write of ") && step.hasSuffix(".syncchg")
                if isCreated == false, isFile { isCreated = true }
                return isCreated == true && step == "after synchronization"
            }
            if dies { throw CancellationError() }
        }
        let b = try fixture.device("b")
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b] { _ = try await device.synchronize().value }
        let former = try fixture.files()
        try a.insert("in the head")
        _ = try await a.synchronize().value
        for number in 0..<2 {
            try a.insert("\(number)", bytes: 40_000)
            try await a.recordChanges()
        }
        isCreated.withLock { $0 = false }
        await #expect(throws: CancellationError.self) { try await a.synchronize().value }
        isCreated.withLock { $0 = nil }
        #expect(try fixture.segments(of: a).count == 1 && a.synchronizationMemory()?.created?.count == 1)
        try fixture.restore(former)
        for device in [a, b] { #expect(try await device.synchronize().value.isComplete) }
        #expect(try b.titles() == ["0", "1", "in the head"])
    }

    @Test("A file of this device that only a stale listing lacks is neither created again nor warned of")
    func staleListing() async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try fixture.device("a")
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try await fixture.writeLargeNotes(1, by: a)
        let segment = try #require(fixture.segments(of: a).first)
        let present = try fixture.files()[segment]
        let writes = Locked(0)
        // The day on which it looks whether the storage has lost a file.
        let later = try fixture.device("a", clockError: 48 * 60 * 60) { step in
            if step.hasPrefix("before list of "), step.contains("/SyncChanges/") { try fixture.put(nil, at: segment) }
            guard step.hasPrefix("before write of "), step.contains(segment) else { return }
            writes.withLock { $0 += 1 }
            try fixture.put(present, at: segment)
        }
        #expect(try await later.synchronize().value.warnings.isEmpty)
        #expect(writes.withLock(\.self) == 1)
        #expect(try fixture.files()[segment] == present)
    }

    @Test("An edit that is too large to be read with others is read alone, and arrives with them")
    func largeEdit() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        let reads = Locked<[String]>([])
        let b = try fixture.device("b") { step in
            if step.hasPrefix("before read"), step.contains(".syncchg") { reads.withLock { $0.append(step) } }
        }
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b] { _ = try await device.synchronize().value }
        for size in [100_000, 20_000_000] {
            try a.insert("\(size)", bytes: size)
            _ = try await a.synchronize().value
        }
        #expect(try await b.synchronize().value.warnings.isEmpty)
        #expect(try b.titles() == ["100000", "20000000"])
        #expect(
            reads.withLock { (3...4).contains($0.count) },
            "the large file is rejected once, and its client read again"
        )
    }

    @Test(
        "A replica that was lost is created again, and reads what this device had read before",
        arguments: [false, true]
    )
    func lostReplica(isOwnHeadHidden: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        try await settle(all)
        for device in all { _ = try await device.synchronize().value }
        let expected = try all[1].titles()
        try all[1].insert("unpublished")
        try removeReplica(of: all[1])
        let hidden = isOwnHeadHidden ? try hideFiles(of: all[1], fixture) : [:]
        var request = SynchronizationRequest(url: all[1].store)
        request.takenSide = .both
        if isOwnHeadHidden {
            #expect(await code { try await all[1].synchronize(request).value } == .identityTwice)
        }
        let early = try await all[1].synchronize(request).value
        #expect(early.waitingFor.isEmpty == !isOwnHeadHidden)
        try show(hidden, fixture)
        // What counts wasn't taken while edits were missing.
        if isOwnHeadHidden { _ = try await all[1].synchronize(request).value }
        for device in all + all { _ = try await device.synchronize().value }
        for device in all { #expect(try device.titles() == expected.inserted("unpublished"), "\(device.name)") }
    }

    @Test(
        "A damaged replica isn't built again while the storage hides the device's own edits: it becomes another client"
    )
    func damagedReplica() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "b")
        try await settle(all)
        for device in all { _ = try await device.synchronize().value }
        let (expected, former) = (try all[1].titles(), try all[1].client())
        try Data(repeating: 7, count: 8192).write(to: #require(all[1].state.replicas().first))
        let hidden = try hideFiles(of: all[1], fixture)
        var request = SynchronizationRequest(url: all[1].store)
        request.rebuildsReplica = true
        let error = await #expect(throws: StoreSyncError.self) { try await all[1].synchronize(request).value }
        #expect(error?.code == .identityTwice && error?.message.contains(former) == true)
        #expect(try all[1].titles() == expected)
        try show(hidden, fixture)
        _ = try await all[1].synchronize(request).value
        for device in all + all { _ = try await device.synchronize().value }
        for device in all { #expect(try device.titles() == expected, "\(device.name)") }
        #expect(try all[1].client() != former)
    }

    @Test("A device without edits of its own, too, reads again what its lost replica had read")
    func lostReplicaOfReader() async throws {
        let fixture = try Fixture()
        let all = try await fixture.devicesWithNotes("a", "b")
        try all[0].insert("of a")
        for device in all { _ = try await device.synchronize().value }
        try removeReplica(of: all[1])
        _ = try await all[1].synchronize { $0.takenSide = .remote }.value
        #expect(try all[1].titles() == ["first", "of a"])
    }

    @Test("A device that has lost its replica publishes nothing that ends before what it had published")
    func lostReplicaAndRollback() async throws {
        let fixture = try Fixture()
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        try await settle(all)
        let former = try fixture.files()
        for device in all { _ = try await device.synchronize().value }
        try all[0].insert("later")
        for device in all { _ = try await device.synchronize().value }
        let (present, expected) = (try fixture.files(), try all[1].titles())
        try removeReplica(of: all[1])
        // A head of a client is older than what this device has read, and this device's own isn't there.
        try fixture.restore(former)
        _ = try hideFiles(of: all[1], fixture)
        #expect(await code { try await all[1].synchronize { $0.takenSide = .both }.value } == .rolledBack)
        #expect(try fixture.files().keys.filter { try $0.contains("RecentSyncs/\(all[1].client())-") } == [])
        try fixture.restore(present)
        _ = try await all[1].synchronize { $0.takenSide = .both }.value
        for device in all { _ = try await device.synchronize().value }
        for device in all { #expect(try device.titles() == expected, "\(device.name)") }
    }

    @Test("A restored device captures nothing while its own later edits wait for others, and then continues after them")
    func restoredWithWaitingEdits() async throws {
        let fixture = try Fixture(password: "correct horse")
        // The third device acknowledges nothing, so that nothing is stable.
        let (a, b, _) = try await fixture.devicesWithNotes("a", "b", "silent").triple
        try fixture.copy(b, to: "backup")
        try a.insert("of a")
        for device in [a, b] { _ = try await device.synchronize().value }
        try b.insert("of b after that")
        _ = try await b.synchronize().value
        let late = try hideFiles(of: a, fixture)
        let restored = try fixture.device("backup")
        try restored.insert("after the restoration")
        for _ in 0..<2 {
            let result = try await restored.synchronize().value
            #expect(try result.publishedChanges == 0 && result.waitingFor.map(\.rawValue).contains(restored.client()))
            #expect(try restored.titles() == ["after the restoration", "first"])
        }
        try show(late, fixture)
        for device in [restored, a, restored] { _ = try await device.synchronize().value }
        let expected = ["after the restoration", "first", "of a", "of b after that"]
        #expect(try restored.titles() == expected && a.titles() == expected)
    }

    @Test("A replica isn't rebuilt while a client's head is hidden: its rows stay in the store")
    func rebuildingLate() async throws {
        let fixture = try Fixture()
        let all = try await fixture.devicesWithNotes("a", "b", "c")
        try await settle(all)
        for device in all { _ = try await device.synchronize().value }
        let expected = try all[1].titles()
        let late = try hideFiles(of: all[2], fixture)
        var request = SynchronizationRequest(url: all[1].store)
        request.rebuildsReplica = true
        let error = await #expect(throws: StoreSyncError.self) { try await all[1].synchronize(request).value }
        #expect(error?.code == .remoteUnavailable)
        #expect(try error?.message.contains(all[2].client()) == true)
        #expect(try all[1].titles() == expected)
        try show(late, fixture)
        _ = try await all[1].synchronize(request).value
        #expect(try all[1].titles() == expected)
    }

    @Test("After the remote was put back to before the first synchronization, a device joins what another one began")
    func otherOrigin() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try a.insert("first")
        _ = try await a.registerDocument().value
        let before = try fixture.files()
        for device in [a, b] { _ = try await device.synchronize().value }
        try await settle([a, b])
        let expected = try a.titles()
        try fixture.restore(before)
        let c = try fixture.device("c")
        try c.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try c.insert("of c")
        _ = try await c.synchronize().value
        for device in [a, b] {
            #expect(await code { try await device.synchronize().value } == .unrelatedStore)
            _ = try await device.synchronize { $0.takenSide = .both }.value
        }
        for device in [c, a, b] {
            let result = try await device.synchronize().value
            #expect(result.warnings.isEmpty, "\(result.warnings)")
        }
        for device in [a, b, c] { #expect(try Set(device.titles()) == Set(expected + ["of c"]), "\(device.name)") }
        #expect(try a.titles() == c.titles() && b.titles() == c.titles())
    }
}

extension [String] {
    /// The sorted strings with another one.
    fileprivate func inserted(_ string: String) -> [String] { (self + [string]).sorted() }
}
