import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Synchronizing records on a storage that exchanges, withholds and puts back files", .timeLimit(.minutes(60)))
struct HostileSynchronizationTests {
    private func titles(_ device: Device) throws -> Set<String> { try Set(device.query("SELECT title FROM note")) }

    private func synchronize(_ devices: Device...) async throws {
        for device in devices { _ = try await device.synchronize().value }
    }

    /// Three devices, of which the first two have published edits that the third doesn't have, in heads and segments.
    private func devices(_ fixture: Fixture) async throws -> (Device, Device, Device) {
        let (a, b, c) = (try fixture.device("a"), try fixture.device("b"), try fixture.device("c"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try await synchronize(a, b, c)
        for device in [a, b] {
            for number in 1...2 {
                try device.insert("\(device.name) \(number)", bytes: 70_000)
                try await synchronize(device)
            }
            try device.insert("\(device.name) 3")
            try await synchronize(device)
        }
        return (a, b, c)
    }

    /// A copy of a device, as it was when it was copied.
    private func copy(_ device: Device, _ number: Int, _ fixture: Fixture) throws -> Device {
        let name = "\(device.name)\(number)"
        try fixture.copy(device, to: name)
        return try fixture.device(name)
    }

    /// Synchronizes a device on a storage that was changed, and returns what it says.
    private func complaint(_ device: Device) async throws -> String {
        do {
            return try await device.synchronize().value.warnings.joined(separator: "\n")
        } catch let error as StoreSyncError {
            #expect([.tampered, .corrupt, .rolledBack, .orphan, .remoteUnavailable].contains(error.code), "\(error)")
            return error.message
        }
    }

    /// The unsealed head at a path on the storage.
    private func head(at path: String, _ fixture: Fixture) throws -> SyncHead {
        let files = try fixture.files()
        let origin = try #require(files.first { $0.key.hasSuffix("origin.plist") }?.value)
        let name = try #require(SyncHeadName(URL(filePath: path).lastPathComponent))
        let since = try SyncOrigin(Array(origin), at: .root).identifier
        return try SyncHead(Array(#require(files[path])), named: name, since: since, at: .root)
    }

    @Test("Numbers in an unsealed head that no device could count on are refused, or do no harm", arguments: [0, 1, 2])
    func greatNumbers(kind: Int) async throws {
        let fixture = try Fixture()
        let (a, b, c) = try await devices(fixture)
        let path = try #require(fixture.syncFiles(of: a).first { $0.contains("RecentSyncs/") })
        let name = try #require(SyncHeadName(URL(filePath: path).lastPathComponent))
        var head = try head(at: path, fixture)
        let next = SyncHeadName(client: name.client, sequence: name.sequence, number: name.number + 1)
        (head.name, head.content.number) = (next, next.number)
        let last = try #require(head.content.last)
        let stamps: [UInt64] = [.max, 1 << 63]
        if kind < stamps.count {
            let position = SetPosition(Stamp(rawValue: stamps[kind]), SetID(head.content.client, last.sequence))
            head.content.stable = StablePrefix(position, [head.content.client: last])
        } else {
            let great = Dictionary(uniqueKeysWithValues: ["x", "y", "z"].map { ($0, UInt64(Int.max)) })
            let names = [1, 2].map { UploadName(client: name.client, generation: $0, upload: UUID().uuidString) }
            head.baselines = names.map { SyncBaseline(upload: $0, vector: great) }
        }
        try fixture.put(Data(head.bytes), at: path.replacing(name.name, with: next.name))
        for _ in 0..<2 {
            let warnings = try await c.synchronize().value.warnings
            #expect(warnings.contains { $0.contains(next.name) } == (kind < stamps.count), "\(warnings)")
            try c.insert("of c")
        }
        #expect(try titles(c).isSuperset(of: titles(b)))
    }

    @Test("A head whose segments leave out a set, or have a set twice, can't be read")
    func segmentsWithGaps() async throws {
        let fixture = try Fixture()
        let (a, _, _) = try await devices(fixture)
        let path = try #require(fixture.syncFiles(of: a).first { $0.contains("RecentSyncs/") })
        var head = try head(at: path, fixture)
        #expect(head.name.sequence == 3)
        head.tail = []
        func isReadable(_ segments: ClosedRange<UInt64>...) -> Bool {
            head.segments = segments.map { SyncSegment($0) }
            return (try? SyncHead(head.bytes, named: head.name, since: head.origin, at: .root)) != nil
        }
        #expect(isReadable(1...1, 2...3))
        #expect(!isReadable(1...1, 3...3) && !isReadable(1...2, 2...3) && !isReadable(2...3) && !isReadable(1...4))
    }

    @Test("The status shows clients whose numbers have no sum in 64 bits")
    func greatSums() async throws {
        let fixture = try Fixture()
        let (a, _, _) = try await devices(fixture)
        let path = try #require(fixture.syncFiles(of: a).first { $0.contains("RecentSyncs/") })
        let name = try #require(SyncHeadName(URL(filePath: path).lastPathComponent))
        var head = try head(at: path, fixture)
        let last = SeenSet((1 << 62) - 1, try #require(head.content.last).digest)
        (head.segments, head.tail, head.removed) = ([], [], last.sequence)
        for number in 1...6 {
            let client = try RemoteIdentifier("client\(number)")
            head.name = SyncHeadName(client: client, sequence: last.sequence, number: 1)
            head.content = ClientHead(ClientID(rawValue: client.rawValue), number: 1, last: last)
            try fixture.put(Data(head.bytes), at: path.replacing(name.name, with: head.name.name))
        }
        let clients = try await a.status().value.documents.flatMap(\.synchronizing)
        #expect(clients.count == 9 && clients.allSatisfy { $0.behind == 1 << 62 }, "\(clients)")
    }

    @Test(
        "A file in the place of another one is named, and brings no edit; the others' edits arrive",
        arguments: [nil, "correct horse"]
    )
    func exchanged(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, b, c) = try await devices(fixture)
        let (former, own) = (try fixture.files(), try fixture.syncFiles(of: a))
        let all = own + (try fixture.syncFiles(of: b)) + former.keys.filter { $0.hasSuffix("origin.plist") }
        #expect(own.count == 3 && all.count == 7)
        var number = 0
        for target in all {
            for source in all where source != target {
                number += 1
                try fixture.restore(former)
                let device = try copy(c, number, fixture)
                try fixture.put(former[source], at: target)
                let said = try await complaint(device)
                let name = try #require(target.split(separator: "/").last)
                #expect(said.contains(name), "\(source) at \(target): \(said)")
                // The second device's later edits had seen the first one's, and wait for them.
                let others: Set = own.contains(target) ? ["b 1"] : ["a 1", "a 2", "a 3"]
                let expected = target.hasSuffix("origin.plist") ? [] : others
                #expect(try titles(device) == expected, "\(source) at \(target): \(said)")
            }
        }
        try fixture.restore(former)
        try await synchronize(c)
        #expect(try titles(c).count == 6)
    }

    @Test(
        "F14: A file that is cut off, or has a changed byte, is named; its edits arrive when it's whole again",
        arguments: [nil, "correct horse"]
    )
    func damaged(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (_, b, c) = try await devices(fixture)
        let former = try fixture.files()
        var number = 0
        for path in try fixture.syncFiles(of: b) {
            let bytes = try #require(former[path])
            var changed = bytes
            changed[changed.startIndex + changed.count / 2] ^= 1
            // What isn't sealed is taken for what the app wrote, as long as it has the form of a file.
            for damaged in [bytes.prefix(bytes.count / 2), bytes + [0]] + (password == nil ? [] : [changed]) {
                number += 1
                try fixture.restore(former)
                let device = try copy(c, number, fixture)
                try fixture.put(Data(damaged), at: path)
                let said = try await complaint(device)
                #expect(try said.contains(#require(path.split(separator: "/").last)), "\(path): \(said)")
                #expect(try titles(device) == ["a 1", "a 2", "a 3"], "\(path): \(said)")
                try fixture.put(bytes, at: path)
                try await synchronize(device)
                #expect(try titles(device).count == 6, "\(path)")
            }
        }
    }

    @Test(
        "Files of a former application of that name are named, and bring no edit",
        arguments: [nil, "correct horse"]
    )
    func formerApplication(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, b, _) = try await devices(fixture)
        let paths = try fixture.syncFiles(of: a) + fixture.syncFiles(of: b)
        let former = try fixture.files()
        _ = try await a.removeApplication().value
        let (later, last) = (try fixture.device("later"), try fixture.device("last"))
        try later.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try later.insert("of the new application")
        try await synchronize(later, last)
        for path in paths { try fixture.put(former[path], at: path) }
        for device in [later, last, try fixture.device("joiner")] {
            let said = try await complaint(device)
            for path in paths where path.contains("RecentSyncs") {
                #expect(try said.contains(#require(path.split(separator: "/").last)), "\(said)")
            }
            #expect(try titles(device) == ["of the new application"])
        }
    }

    @Test(
        "A former head under the name of a newer one is named, and undoes nothing",
        arguments: [nil, "correct horse"]
    )
    func renamed(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, _, c) = try await devices(fixture)
        let path = try #require(try fixture.syncFiles(of: a).first { $0.contains("RecentSyncs") })
        let bytes = try fixture.files()[path]
        try await synchronize(c)
        try a.insert("later")
        try await synchronize(a, c)
        let newest = try #require(try fixture.syncFiles(of: a).first { $0.contains("RecentSyncs") })
        var name = try #require(SyncHeadName(String(newest.split(separator: "/").last ?? "")))
        let former = name.name
        name.number += 1
        try fixture.put(bytes, at: newest.replacing(former, with: name.name))
        let said = try await complaint(c)
        #expect(said.contains(name.name))
        // An unsealed file may be that client's, and damaged.
        #expect(said.contains("isn't authentic under that name") == (password != nil), "\(said)")
        #expect(said.contains("wait") == (password == nil), "\(said)")
        #expect(try titles(c).count == 7)
        try a.insert("last")
        try await synchronize(a, c)
        #expect(try titles(c).count == 8)
    }

    @Test("Edits that had seen what the storage withholds wait, their client is named, and they arrive with the rest")
    func withheld() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await devices(fixture)
        try await synchronize(a)
        try a.execute("UPDATE note SET title = 'seen by a' WHERE title = 'b 3'")
        try await synchronize(a)
        let former = try fixture.files()
        for path in try fixture.syncFiles(of: b) { try fixture.put(nil, at: path) }
        let result = try await c.synchronize().value
        #expect(try result.waitingFor.map(\.rawValue) == [a.client()])
        #expect(try titles(c) == ["a 1", "a 2", "a 3"])
        for path in try fixture.syncFiles(of: b) { try fixture.put(nil, at: path) }
        try fixture.restore(former)
        #expect(try await c.synchronize().value.waitingFor == [])
        #expect(try titles(c).contains("seen by a") && titles(c).count == 6)
    }

    @Test("A storage that is put back to a former state is noticed, and clients publish again what it has lost")
    func putBack() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await devices(fixture)
        try await synchronize(a, b, c)
        let former = try fixture.files()
        for device in [a, b] {
            try device.insert("\(device.name) later", bytes: 70_000)
            try await synchronize(device)
        }
        try await synchronize(a, b, c)
        try fixture.restore(former)
        for device in [c, a] { #expect(await code { try await device.synchronize().value } == .rolledBack) }
        #expect(try titles(c).count == 8)
        // The first device has published its files again nevertheless, so that it's the second one's turn.
        try await synchronize(b, a, c)
        let joiner = try fixture.device("joiner")
        try await synchronize(joiner)
        for device in [a, b, c, joiner] { #expect(try titles(device).count == 8) }
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("A client whose head the storage has put back holds up no device any more when it's removed")
    func putBackAndRemoved() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await devices(fixture)
        try await synchronize(a, b, c)
        let former = try fixture.syncFiles(of: a).filter { $0.contains("RecentSyncs/") }
        let old = try fixture.files()
        try a.insert("a later")
        try await synchronize(a, b, c)
        for path in try fixture.syncFiles(of: a) where path.contains("RecentSyncs/") { try fixture.put(nil, at: path) }
        for path in former { try fixture.put(old[path], at: path) }
        for device in [b, c] { #expect(await code { try await device.synchronize().value } == .rolledBack) }
        let client = try RemoteIdentifier(a.client())
        _ = try await b.remove(client, from: fixture.document).value
        try b.insert("b after it")
        try await synchronize(b, c)
        #expect(try titles(c) == titles(b) && titles(c).isSuperset(of: ["a later", "b after it"]))
    }

    @Test(
        "A device gets a removed client's lost edits with a baseline, although the client's older head is there again"
    )
    func putBackRemovedAndNotSeen() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await devices(fixture)
        try await synchronize(a, b, c)
        let former = try fixture.syncFiles(of: a).filter { $0.contains("RecentSyncs/") }
        let old = try fixture.files()
        try a.insert("a later")
        try await synchronize(a, b)
        for path in try fixture.syncFiles(of: a) where path.contains("RecentSyncs/") { try fixture.put(nil, at: path) }
        for path in former { try fixture.put(old[path], at: path) }
        let client = try RemoteIdentifier(a.client())
        _ = try await b.remove(client, from: fixture.document).value
        try b.insert("b after it")
        _ = try await b.vacuum().value
        let result = try await c.synchronize().value
        #expect(result.waitingFor.isEmpty && result.warnings.isEmpty, "\(result.warnings)")
        #expect(try titles(c) == titles(b) && titles(c).isSuperset(of: ["a later", "b after it"]))
    }

    @Test(
        "An own head that the device has forgotten and the storage shows again changes none of the files that it names"
    )
    func formerHeadOfItsOwn() async throws {
        let fixture = try Fixture()
        let (a, b, _) = try await devices(fixture)
        let former = try #require(try fixture.syncFiles(of: a).first { $0.contains("RecentSyncs/") })
        let bytes = try fixture.files()[former]
        try a.insert("a 4", bytes: 70_000)
        try await synchronize(a)
        var memory = try #require(try a.synchronizationMemory())
        let segments = memory.segments
        // As after many later heads.
        memory.heads = memory.heads.suffix(1)
        try a.setSynchronizationMemory(memory)
        try fixture.put(bytes, at: former)
        try await synchronize(a)
        #expect(try a.synchronizationMemory()?.segments == segments && segments.count == 3)
        try a.insert("a 5")
        try await synchronize(a, b)
        #expect(try titles(b).isSuperset(of: (1...5).map { "a \($0)" }))
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("A storage that loses where the change sets begin is noticed, and no device begins a second time")
    func hiddenOrigin() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await devices(fixture)
        try await synchronize(a, b, c)
        let origin = fixture.hierarchy.document(fixture.document).syncOrigin.description
        let bytes = try #require(try fixture.files()[origin])
        try fixture.put(nil, at: origin)
        let hidden = try fixture.files()
        let joiner = try fixture.device("joiner")
        try a.insert("unpublished")
        #expect(await code { try await joiner.synchronize().value } == .remoteUnavailable)
        // Equal to the store with which the document began, so that its upload is nothing new.
        try joiner.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        #expect(await code { try await joiner.synchronize().value } == .remoteUnavailable)
        #expect(try fixture.files()[origin] == nil && Set(fixture.files().keys).isSuperset(of: hidden.keys))
        try FileManager.default.removeItem(at: joiner.store)
        try await synchronize(a, b, c, joiner)
        #expect(try fixture.files()[origin] == bytes)
        for device in [a, b, c, joiner] { #expect(try titles(device).count == 7) }
    }

    @Test("A vacuum creates files again that the storage has lost")
    func lostSegments() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, _, c) = try await devices(fixture)
        let lost = try fixture.syncFiles(of: a).filter { $0.hasSuffix(".syncchg") }
        for path in lost { try fixture.put(nil, at: path) }
        #expect(try await complaint(c).contains("run storesync vacuum on client"))
        #expect(try titles(c) == ["b 1"])
        _ = try await a.vacuum().value
        #expect(try fixture.syncFiles(of: a).filter { $0.hasSuffix(".syncchg") } == lost)
        try await synchronize(c)
        #expect(try titles(c).count == 6)
    }

    @Test("A synchronization creates such files again, once half an hour has passed since the last look")
    func lostSegmentsLater() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, _, c) = try await devices(fixture)
        let lost = try fixture.syncFiles(of: a).filter { $0.hasSuffix(".syncchg") }
        for path in lost { try fixture.put(nil, at: path) }
        try await synchronize(a)
        #expect(try fixture.syncFiles(of: a).filter { $0.hasSuffix(".syncchg") } == [])
        let later = try fixture.device("a", clockError: 31 * 60)
        #expect(try await later.synchronize().value.warnings == [])
        #expect(try fixture.syncFiles(of: a).filter { $0.hasSuffix(".syncchg") } == lost)
        try await synchronize(c)
        #expect(try titles(c).count == 6)
    }

    @Test("The memory of a device is put back alone: it says so, and no edit is lost, whichever side is taken")
    func memoryPutBack() async throws {
        for side in [TakenSide.local, .remote, .both] {
            let fixture = try Fixture()
            let (a, b, c) = try await devices(fixture)
            try await synchronize(a, b, c)
            let (memory, backup) = (c.state.url, fixture.folder.appending(path: "backup"))
            try FileManager.default.copyItem(at: memory, to: backup)
            try c.insert("published")
            try await synchronize(c, a)
            try FileManager.default.removeItem(at: memory)
            try FileManager.default.copyItem(at: backup, to: memory)
            let restored = try fixture.device("c")
            #expect(await code { try await restored.synchronize().value } == .storeReplaced)
            _ = try await restored.synchronize(SynchronizationRequest(url: c.store, takenSide: side)).value
            try restored.insert("later")
            try await synchronize(restored, a, b)
            for device in [a, b, restored] {
                #expect(try titles(device).isSuperset(of: ["published", "later"]), "\(side)")
                #expect(try device.query("SELECT title FROM note").count == 8, "\(side)")
            }
        }
    }

    @Test("Removing a client removes no file that the storage hides, and its edits arrive", arguments: [false, true])
    func hiddenFilesOfARemovedClient(fromDocument: Bool) async throws {
        let place = InMemoryBackend()
        let (fixture, veil) = (try Fixture(place: place), VeiledBackend(place))
        let (a, b) = (try fixture.device("a"), try fixture.device("b", backend: veil))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try await synchronize(a, b)
        try a.insert("large", bytes: 70_000)
        try await synchronize(a, b)
        let client = try RemoteIdentifier(a.client())
        let directory = fixture.hierarchy.document(fixture.document).syncChanges(client)
        let segments = try #require(try await place.list(directory)).map { try directory.appending($0.name) }
        #expect(!segments.isEmpty)
        await veil.hide(segments + [fixture.hierarchy.document(fixture.document).syncOrigin])
        _ = try await b.remove(client, from: fromDocument ? fixture.document : nil).value
        await veil.showAll()
        let c = try fixture.device("c")
        try await synchronize(c)
        #expect(try titles(c) == ["large"])
    }

    /// A storage that claims to have more bytes of change sets than a size can hold.
    private actor ExaggeratingBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend

        init(_ base: any RemoteBackend) { self.base = base }

        func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
            let items = try await base.list(directory)
            guard directory.components.contains("SyncChanges") else { return items }
            return items.map { $0 + (1...2_000).map { RemoteItem(name: "\($0)", kind: .file, size: .max) } }
        }
    }

    @Test("The status limits the sum of the sizes that the storage claims")
    func claimedSizes() async throws {
        let fixture = try Fixture()
        _ = try await devices(fixture)
        let device = try fixture.device("a", backend: ExaggeratingBackend(fixture.remote))
        let clients = try await device.status().value.documents.flatMap(\.synchronizing)
        #expect(clients.contains { $0.logBytes == 1 << 60 })
    }
}
