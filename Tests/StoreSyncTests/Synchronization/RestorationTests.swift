import Foundation
import Operations
import RemoteStorage
import StoreChanges
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Devices that were restored from a backup, or continue as other clients", .timeLimit(.minutes(60)))
struct RestorationTests {
    @Test("A store is refused at another path while it is at its former one, and synchronizes once it was moved there")
    func otherPath() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let moved = a.with(store: a.store.deletingLastPathComponent().appending(path: "moved.sqlite"))
        for side in [nil, TakenSide.remote] {
            let request = SynchronizationRequest(url: moved.store, takenSide: side)
            let error = await #expect(throws: StoreSyncError.self) { try await moved.synchronize(request).value }
            #expect(error?.code == .storeNotFound && error?.message.contains("move it") == true)
        }
        try FileManager.default.moveItem(at: a.store, to: moved.store)
        try moved.execute("INSERT INTO note (title) VALUES ('after the move')")
        #expect(try await moved.synchronize().value.publishedChanges == 1)
    }

    /// What is restored from a backup besides the store, and whether edits are captured before it synchronizes.
    enum Restoration: CaseIterable {
        case memory, memoryOffline, memoryRebuilding, replicaOffline
    }

    @Test(
        "A device whose memory and store were restored from a backup continues with what it had published",
        arguments: Restoration.allCases
    )
    func backup(restoration: Restoration) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try backUp(a, fixture)
        try await a.synchronize(after: "INSERT INTO note (title) VALUES ('after the backup')")
        _ = try await b.synchronize().value
        var restored = try fixture.device("backup")
        if restoration == .replicaOffline {
            restored = try restore(a, from: restored)
        }
        try restored.execute("INSERT INTO note (title) VALUES ('after the restoration')")
        // With the number of a set that it has published, and doesn't know any more.
        if restoration != .memory { #expect(try await restored.recordChanges() == 1) }
        let former = try client(of: restored)
        _ = try? await restored.synchronize(preview(of: restored)).value
        #expect(try client(of: restored) == former, "a preview changes nothing")
        var request = SynchronizationRequest(url: restored.store)
        request.rebuildsReplica = restoration == .memoryRebuilding
        _ = try? await restored.synchronize(request).value
        // What is captured next must not refer to a set that no other device will ever have.
        try restored.execute("INSERT INTO note (title) VALUES ('after the first synchronization')")
        for device in [restored, b, restored] { _ = try? await device.synchronize().value }
        try restored.execute("INSERT INTO note (title) VALUES ('recorded')")
        #expect(try await restored.recordChanges() == 1)
        for device in [restored, b] { #expect(try await device.synchronize().value.waitingFor.isEmpty) }
        let expected: Set = [
            "after the backup", "after the restoration", "after the first synchronization", "recorded",
        ]
        #expect(try Set(restored.query("SELECT title FROM note")) == expected)
        #expect(try Set(b.query("SELECT title FROM note")) == expected)
    }

    private func client(of device: Device) throws -> String? {
        try device.state.peekClientIdentifier(for: device.key)
    }

    private func preview(of device: Device) -> SynchronizationRequest {
        var request = SynchronizationRequest(url: device.store)
        request.isPreview = true
        return request
    }

    @Test("A restored device that continues as another client looks first what it had published")
    func otherClient() async throws {
        let (fixture, restored, b) = try await restoredDevice()
        try restored.execute("INSERT INTO note (title) VALUES ('after the restoration')")
        #expect(try await restored.recordChanges() == 1)
        let former = try #require(try client(of: restored))
        func heads() throws -> [String] { try fixture.files().keys.filter { $0.contains("/\(former)-") }.sorted() }
        let published = try heads()
        try replaceClient(of: restored)
        _ = try await restored.synchronize().value
        #expect(try heads() == published && published.count == 1)
        for device in [restored, b, restored] { _ = try? await device.synchronize().value }
        for device in [restored, b] { #expect(try device.titles() == ["after the backup", "after the restoration"]) }
    }

    /// Two devices that have synchronized, and a copy of the first one from before it published a note.
    private func restoredDevice() async throws -> (Fixture, Device, Device) {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try backUp(a, fixture)
        try await a.synchronize(after: "INSERT INTO note (title) VALUES ('after the backup')")
        return (fixture, try fixture.device("backup"), b)
    }

    /// Copies everything that a device has to the device “backup”.
    private func backUp(_ device: Device, _ fixture: Fixture) throws {
        try fixture.copy(device, to: "backup")
    }

    /// Lets a device continue as another client, as synchronizing another document of the application may.
    private func replaceClient(of device: Device) throws {
        _ = try device.state.replaceClientIdentifier(for: device.key)
    }

    @Test(
        "What another client changes in rows that it hasn't published as the former one stays when it rebuilds",
        arguments: [false, true]
    )
    func rebuilding(hidesHead: Bool) async throws {
        let (fixture, backup, b) = try await restoredDevice()
        var restored = backup
        try restored.execute("INSERT INTO note (title) VALUES ('after the restoration'), ('to be deleted')")
        #expect(try await restored.recordChanges() == 2)
        if hidesHead {
            // Only the replica and the store are restored. So the device misses its own head, and becomes another client.
            restored = try restore(fixture.device("a"), from: restored)
            let head = try #require(fixture.files().keys.first { $0.contains("/\(try client(of: restored) ?? "")-") })
            let (url, hidden) = (fixture.share.appending(path: head), fixture.folder.appending(path: "hidden"))
            try FileManager.default.moveItem(at: url, to: hidden)
            #expect(await code { try await restored.synchronize().value } == .identityTwice)
            try FileManager.default.moveItem(at: hidden, to: url)
        } else {
            try replaceClient(of: restored)
        }
        try restored.execute(
            """
            UPDATE note SET title = 'changed' WHERE title = 'after the restoration';
            DELETE FROM note WHERE title = 'to be deleted';
            """
        )
        _ = try? await restored.synchronize { $0.rebuildsReplica = true }.value
        for device in [restored, b, restored] { _ = try? await device.synchronize().value }
        for device in [restored, b] { #expect(try device.titles() == ["after the backup", "changed"]) }
        withExtendedLifetime(fixture) {}
    }

    /// Replaces a device's store and replica by those of a backup, but not what it remembers of the storage.
    private func restore(_ device: Device, from backup: Device) throws -> Device {
        let files = [(backup.store, device.store)] + zip(backup.state.replicas(), device.state.replicas())
        for (file, former) in files { try Data(contentsOf: file).write(to: former) }
        return device
    }

    @Test("A write that wasn't finished before the device continued as another client doesn't take back others' edits")
    func unfinishedWrite() async throws {
        let fixture = try Fixture(password: "correct horse")
        let dies = Locked(false)
        let b = try fixture.device("b")
        let a = try fixture.device("a") { step in
            if step == "written", dies.withLock(\.self) { throw CancellationError() }
        }
        try b.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note VALUES (1, 'first')")
        for device in [b, a] { _ = try await device.synchronize().value }
        try await b.synchronize(after: "UPDATE note SET title = 'second'")
        dies.withLock { $0 = true }
        await #expect(throws: CancellationError.self) { try await a.synchronize().value }
        dies.withLock { $0 = false }
        #expect(try a.titles() == ["second"])
        try replaceClient(of: a)
        try b.execute("UPDATE note SET title = 'third'")
        for device in [b, a, b] { _ = try await device.synchronize().value }
        for device in [a, b] { #expect(try device.titles() == ["third"]) }
    }

    @Test(
        "Edits in a first head whose upload failed, or seemed to, reach the others when the device is another client",
        arguments: ["before", "after"]
    )
    func firstHead(moment: String) async throws {
        let fixture = try Fixture(password: "correct horse")
        let failing = Locked<String?>(nil)
        let b = try fixture.device("b")
        let a = try fixture.device("a") { step in
            guard let head = failing.withLock(\.self), step.hasPrefix("\(moment) write of "), step.contains(head) else {
                return
            }
            throw CancellationError()
        }
        try b.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        for device in [b, a] { _ = try await device.synchronize().value }
        try replaceClient(of: a)
        _ = try await a.registerDocument().value
        let former = try #require(try client(of: a))
        // Not even the head that only says that the device takes part.
        failing.withLock { $0 = "/\(former)-" }
        await #expect(throws: CancellationError.self) { try await a.synchronize().value }
        try a.execute("INSERT INTO note (title) VALUES ('recorded')")
        #expect(try await a.recordChanges() == 1)
        await #expect(throws: CancellationError.self) { try await a.synchronize().value }
        try replaceClient(of: a)
        failing.withLock { $0 = nil }
        // A head of another device that is still arriving holds nothing up.
        let other = try RemoteIdentifier(#require(try client(of: b)))
        let head = try #require(fixture.files().keys.first { $0.contains("/\(other)-") && $0.hasSuffix(".recentsync") })
        let name = SyncHeadName(client: other, sequence: 9, number: 99).name
        let partial = (head as NSString).deletingLastPathComponent + "/" + name
        try fixture.put(Data("partial".utf8), at: partial)
        #expect(try await a.synchronize().value.warnings.isEmpty == false)
        try fixture.put(nil, at: partial)
        try a.execute("INSERT INTO note (title) VALUES ('as another client')")
        for device in [a, b, a] { #expect(try await device.synchronize().value.waitingFor.isEmpty) }
        for device in [a, b] { #expect(try device.titles() == ["as another client", "recorded"]) }
    }

    @Test(
        "A former client's head that the storage has lost is published again, also if another client's is older",
        arguments: [false, true]
    )
    func lostHeadOfFormerClient(isOtherHeadOlder: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let former = try #require(try client(of: a))
        func heads(of client: String) throws -> [String: Data] {
            try fixture.files().filter { $0.key.contains("RecentSyncs/\(client)-") }
        }
        let other = try #require(try client(of: b))
        let old = try heads(of: other)
        for device in [a, b, a] {
            try await device.synchronize(after: "INSERT INTO note (title) VALUES ('of \(device.name)')")
        }
        let present = try heads(of: other)
        for path in try heads(of: former).keys { try fixture.put(nil, at: path) }
        if isOtherHeadOlder {
            for path in present.keys { try fixture.put(nil, at: path) }
            for (path, bytes) in old { try fixture.put(bytes, at: path) }
        }
        try replaceClient(of: a)
        if isOtherHeadOlder {
            #expect(await code { try await a.synchronize().value } == .rolledBack)
        } else {
            _ = try await a.synchronize().value
        }
        #expect(try heads(of: former).count == 1)
        // A device that has read none of it joins.
        for (path, bytes) in present { try fixture.put(bytes, at: path) }
        let c = try fixture.device("c")
        for device in [a, b, c] { #expect(try await device.synchronize().value.waitingFor.isEmpty) }
        for device in [a, b, c] { #expect(try device.titles() == ["of a", "of a", "of b"], "\(device.name)") }
    }

    @Test("A device that has become another client writes the document's origin again if the storage loses it")
    func originAsAnotherClient() async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try fixture.device("a")
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let origin = try #require(try fixture.files().first { $0.key.hasSuffix("origin.plist") })
        try replaceClient(of: a)
        _ = try await a.synchronize().value
        try fixture.put(nil, at: origin.key)
        _ = try await a.synchronize().value
        #expect(try fixture.files()[origin.key] == origin.value)
    }

    @Test("A preview by a device that has become another client tells what that client will publish")
    func previewAsAnotherClient() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try await a.synchronize(after: "INSERT INTO note (title) VALUES ('published')")
        try replaceClient(of: a)
        try a.execute("INSERT INTO note (title) VALUES ('new')")
        let outcome = try await a.synchronize(preview(of: a)).value
        #expect(outcome.publishedChanges == 1 && outcome.sequence == 1)
        for device in [a, b] { _ = try await device.synchronize().value }
        #expect(try b.titles() == ["new", "published"])
    }

    @Test("Edits that a device publishes as its former client and as another one are all counted")
    func countAsAnotherClient() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try a.execute("INSERT INTO note (title) VALUES ('recorded')")
        #expect(try await a.recordChanges() == 1)
        try replaceClient(of: a)
        try a.execute("INSERT INTO note (title) VALUES ('new')")
        #expect(try await a.synchronize().value.publishedChanges == 2)
        #expect(try await b.synchronize().value.applied["note"]?.inserted == 2)
    }

    @Test(
        "What a device had published under a number that it uses again is in the conflict log if it doesn't count",
        arguments: [false, true],
        // Which of both sets counts depends on their digests, and which of two heads comes first on their names. From 4 on
        // the device publishes two heads before the former one is there again.
        TestDepth.choose(quick: [0, 4], ci: [0, 1, 4, 5], deep: Array(0..<8))
    )
    func numberUsedAgain(isMerged: Bool, variant: Int) async throws {
        let (fixture, restored, b) = try await restoredDevice()
        if isMerged { _ = try await b.synchronize().value }
        let name = try #require(try client(of: restored))
        let heads = try fixture.files().filter { $0.key.contains("RecentSyncs/\(name)-") }
        for path in heads.keys { try fixture.put(nil, at: path) }
        let titlesOfRestored = (0...variant / 4).map { "after the restoration \(variant) \($0)" }
        for title in titlesOfRestored {
            try restored.execute("INSERT INTO note (title) VALUES ('\(title)')")
            for device in [restored, b] { _ = try? await device.synchronize().value }
        }
        for (path, bytes) in heads { try fixture.put(bytes, at: path) }
        for device in [restored, b, restored, b, restored, b] { _ = try? await device.synchronize().value }
        let log = ConflictLog(ofStoreAt: restored.store, state: restored.state)
        for entry in try await log.entries() where entry.conflict.rule == .setVoid {
            try await log.restore(entry.number)
        }
        for device in [restored, b] { _ = try await device.synchronize().value }
        for device in [restored, b] { #expect(try device.titles() == ["after the backup"] + titlesOfRestored) }
        let there = Set(try fixture.files().keys)
        guard variant >= 4, there.isSuperset(of: heads.keys) else { return }
        // Only the head is left that has a lower number than others that were read.
        for path in there where path.contains("RecentSyncs/\(name)-") && heads[path] == nil {
            try fixture.put(nil, at: path)
        }
        #expect(await code { try await b.synchronize().value } == .rolledBack)
    }

    @Test("An old head that the storage shows again is remembered, so that it can be removed, and isn't the newest one")
    func oldHead() throws {
        let client = try RemoteIdentifier("device")
        var memory = SynchronizationMemory(origin: UUID(), client: client)
        for number in 2...100 { memory.note(SyncHeadName(client: client, sequence: 1, number: UInt64(number))) }
        let newest = memory.newestHead
        let old = SyncHeadName(client: client, sequence: 1, number: 1)
        memory.note(old)
        #expect(newest?.number == 100 && memory.newestHead == newest)
        #expect(memory.heads.contains(old.name))
    }

    @Test(
        "A device whose store and replica were restored from before it became another client continues as that client",
        arguments: [false, true]
    )
    func replicaOfFormerClient(records: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try backUp(a, fixture)
        try replaceClient(of: a)
        try a.execute("INSERT INTO note (title) VALUES ('of the new client')")
        for device in [a, b] { _ = try await device.synchronize().value }
        let restored = try restore(a, from: fixture.device("backup"))
        try restored.execute("INSERT INTO note (title) VALUES ('after the restoration')")
        if records { #expect(try await restored.recordChanges() == 1) }
        for device in [restored, b, restored, b] {
            #expect(try await device.synchronize().value.waitingFor.isEmpty)
        }
        for device in [restored, b] { #expect(try device.titles() == ["after the restoration", "of the new client"]) }
    }
}
