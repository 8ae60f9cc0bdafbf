import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A store that was moved keeps its record", .timeLimit(.minutes(60)))
struct MovedStoreTests {
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device

        init() async throws {
            fixture = try Fixture()
            let backend = InMemoryBackend()
            (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
            try a.write("one")
            _ = try await a.push().value
            _ = try await b.pull().value
        }

        func url(_ name: String) -> URL { fixture.folder.appending(path: name) }

        func folder(_ name: String) throws -> URL {
            try FileManager.default.createDirectory(at: url(name), withIntermediateDirectories: false)
            return url(name)
        }

        /// Returns device `b`, which dies at a moment of a change of its memory.
        func dying(_ moment: String) throws -> Device {
            try fixture.device("b", backend: b.backend) { step in
                if step == moment { throw RemoteError(.unavailable, "The device is dead.") }
            }
        }

        private func sets(of store: URL) throws -> AppliedSetsDirectory {
            try b.state.appliedSets(for: LocalStore(store).path, in: a.documentKey)
        }

        /// Notes in the applied sets of a store of `b` that a change set is applied.
        func noteApplied(_ identifier: String, in store: URL) throws {
            let file = url(UUID().uuidString)
            try AppliedSets.create(at: file)
            let queue = try DatabaseQueue(path: file.path)
            try queue.write { db in
                try db.execute(sql: "INSERT INTO appliedSet VALUES (?, 'today')", arguments: [identifier])
            }
            try queue.close()
            try sets(of: store).stage(.appliedSyncChangeSets, from: file)
            try sets(of: store).commit()
        }

        /// Returns what the applied sets of a store of `b` say.
        func applied(in store: URL) throws -> [String] {
            let copy = url(UUID().uuidString)
            try sets(of: store).copyOrCreate(.appliedSyncChangeSets, at: copy)
            let queue = try DatabaseQueue(path: copy.path)
            defer { try? queue.close() }
            return try queue.read { try String.fetchAll($0, sql: "SELECT identifier FROM appliedSet") }
        }

        /// Pushes a store of `a`, and expects that it continues from the former upload.
        func expectGoesOn(_ store: URL, sourceLocation: SourceLocation = #_sourceLocation) async throws {
            let upload = try await a.push(store).value
            #expect(upload.divergedFrom.isEmpty && !upload.isUnchanged, sourceLocation: sourceLocation)
            _ = try await b.pull().value
            #expect(try b.notes() == Store.notes(in: store), sourceLocation: sourceLocation)
        }
    }

    @Test("A store that was moved to another path keeps its record, edited or not")
    func moved() async throws {
        let scene = try await Scene()
        let new = scene.url("moved.sqlite")
        try Self.move(scene.a.store, to: new)
        #expect(try await scene.a.push(new).value.isUnchanged)
        let newer = scene.url("moved again.sqlite")
        try Self.move(new, to: newer)
        try Store.write(["two"], to: newer)
        try await scene.expectGoesOn(newer)
        try scene.b.write("three")
        _ = try await scene.b.push().value
        _ = try await scene.a.pull(newer).value
        #expect(try Store.notes(in: newer) == ["one", "two", "three"])
    }

    @Test("A moved store keeps its record although a link at its former path, or a directory on that path, leads to it")
    func movedBehindLink() async throws {
        let scene = try await Scene()
        let (former, folder) = (scene.a.store, try scene.folder("one"))
        let new = folder.appending(path: "moved.sqlite")
        try Self.move(former, to: new)
        try FileManager.default.createSymbolicLink(at: former, withDestinationURL: new)
        try Store.write(["two"], to: new)
        try await scene.expectGoesOn(former)
        try FileManager.default.moveItem(at: folder, to: scene.url("other"))
        try FileManager.default.createSymbolicLink(at: folder, withDestinationURL: scene.url("other"))
        try Store.write(["three"], to: new)
        try await scene.expectGoesOn(new)
    }

    @Test("A store whose name changed only in case keeps its record, also while the former name leads to it")
    func caseOnly() async throws {
        let scene = try await Scene()
        let new = scene.a.store.deletingLastPathComponent()
            .appending(path: scene.a.store.lastPathComponent.uppercased())
        // As a file system that ignores case does: both names lead to one file.
        try FileManager.default.linkItem(at: scene.a.store, to: new)
        try Store.write(["two"], to: new)
        try await scene.expectGoesOn(new)
    }

    @Test("A moved store keeps its record although another store takes its former path")
    func replacedAfterMove() async throws {
        let scene = try await Scene()
        let (new, other) = (scene.url("moved.sqlite"), scene.url("other.sqlite"))
        _ = try await scene.a.pull(other).value
        try Self.move(scene.a.store, to: new)
        try Self.move(other, to: scene.a.store)
        try Store.write(["two"], to: new)
        try await scene.expectGoesOn(new)
        // The store at its former path is the other pulled store, and doesn't include that edit.
        try scene.a.write("beside")
        #expect(try await scene.a.push().value.divergedFrom.count == 1)
    }

    @Test("A store at another path in another file, as on another volume, keeps its record if it's unchanged")
    func otherVolume() async throws {
        let scene = try await Scene()
        let new = try scene.folder("restored").appending(path: scene.a.store.lastPathComponent)
        try FileManager.default.copyItem(at: scene.a.store, to: new)
        try Self.remove(scene.a.store)
        #expect(try await scene.a.push(new).value.isUnchanged)
        try Store.write(["two"], to: new)
        try await scene.expectGoesOn(new)
    }

    @Test(
        "A file doesn't inherit the uploads of a store that is missing, as on a drive that isn't connected",
        arguments: ["other.sqlite", "store.sqlite"]
    )
    func otherFile(name: String) async throws {
        let scene = try await Scene()
        let other = try scene.folder("other").appending(path: name)
        try Store.write(["of another program"], to: other)
        let aside = scene.url("aside")
        try FileManager.default.moveItem(at: scene.a.store, to: aside)
        for _ in 0..<2 {
            #expect(await code { try await scene.a.push(other).value } == .unrelatedStore)
            #expect(await code { try await scene.a.pull(other).value } == .localChanges)
        }
        try FileManager.default.moveItem(at: aside, to: scene.a.store)
        #expect(try await scene.a.push().value.isUnchanged)
    }

    @Test("An unchanged copy gets the record, and the original continues independently")
    func copied() async throws {
        let scene = try await Scene()
        let copy = scene.url("copy.sqlite")
        try FileManager.default.copyItem(at: scene.a.store, to: copy)
        #expect(try await scene.a.push(copy).value.isUnchanged)
        try Store.write(["of the copy"], to: copy)
        try await scene.expectGoesOn(copy)
        try scene.a.write("of the original")
        #expect(try await scene.a.push().value.divergedFrom.count == 1, "neither has the other's edit")
    }

    @Test("A store that an app replaced at its path keeps its record, but a copy edited before any push is unrelated")
    func replacedAtItsPath() async throws {
        let scene = try await Scene()
        let copy = scene.url("copy.sqlite")
        try FileManager.default.copyItem(at: scene.a.store, to: copy)
        try Store.write(["two"], to: copy)
        #expect(await code { try await scene.a.push(copy).value } == .unrelatedStore)
        #expect(await code { try await scene.a.pull(copy).value } == .localChanges)
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: scene.a.store.path + suffix) }
        try Store.setJournalMode("delete", of: copy)
        guard rename(copy.path, scene.a.store.path) == 0 else { throw StoreSyncError(writing: copy.path, errno: errno) }
        try await scene.expectGoesOn(scene.a.store)
    }

    @Test("Two stores that have exchanged their paths keep their records, since each is found by its file")
    func swapped() async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        _ = try await scene.a.pull(other).value
        try scene.a.write("two")
        _ = try await scene.a.push().value
        try Self.exchange(scene.a.store, other)
        #expect(try await scene.a.push(other).value.isUnchanged)
        // The store of the former generation is updated, and isn't taken for an edit that removes "two".
        #expect(try await scene.a.pull().value.generation == 2)
        #expect(try scene.a.notes() == ["one", "two"])
    }

    @Test("The stores of two documents that have exchanged their paths aren't pushed to each other's document")
    func swappedDocuments() async throws {
        let scene = try await Scene()
        let journal = scene.a.with(document: try RemoteIdentifier("journal"), store: scene.url("journal.sqlite"))
        try journal.write("of the journal")
        _ = try await journal.push().value
        // Without times of birth, a file may have the reused number of another one.
        guard FileIdentity(atPath: journal.store.path)?.birth != 0 else { return }
        try Self.exchange(scene.a.store, journal.store)
        try Store.write(["edited"], to: journal.store)
        for device in [scene.a, journal] {
            #expect(await code { try await device.push().value } == .unrelatedStore)
        }
        try Self.exchange(scene.a.store, journal.store)
        #expect(try await journal.push().value.isUnchanged)
        try await scene.expectGoesOn(scene.a.store)
    }

    @Test("Two stores with an edit each that have exchanged their paths keep their records")
    func exchanged() async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        _ = try await scene.a.pull(other).value
        try Store.write(["of the other"], to: other)
        try scene.a.write("of the first")
        try Self.exchange(scene.a.store, other)
        #expect(try await scene.a.push(other).value.divergedFrom.isEmpty)
        #expect(try await scene.a.push().value.divergedFrom.count == 1, "it descends from the first generation")
        #expect(try await scene.a.push(other).value.isUnchanged)
    }

    @Test(
        "A store that was moved after its pull died keeps its record, also at the path of another store",
        arguments: ["after pull begun", "before pull"],
        ["other.sqlite", "new.sqlite"]
    )
    func movedAfterDeadPull(moment: String, name: String) async throws {
        let scene = try await Scene()
        // Without times of birth, a file may have the reused number of another one.
        guard FileIdentity(atPath: scene.b.store.path)?.birth != 0 else { return }
        try scene.a.write("two")
        let client = try await scene.a.push().value.client
        _ = try await scene.b.pull(scene.url("other.sqlite")).value
        let dying = try scene.dying(moment)
        if moment == "before pull" {
            _ = try await scene.b.pull().value
            #expect(await code { try await dying.pull(from: client, generation: 1).value } == .remoteUnavailable)
        } else {
            #expect(await code { try await dying.pull().value } == .remoteUnavailable)
        }
        #expect(try scene.b.notes() == ["one"])
        let new = scene.url(name)
        try Self.remove(new)
        try Self.move(scene.b.store, to: new)
        try Store.write(["three"], to: new)
        #expect(try await scene.b.push(new).value.divergedFrom == [client], "the store doesn't have the edit of a")
    }

    @Test("A store that is moved after its dead pull was settled keeps its record, also at the path of another store")
    func movedAfterSettledPull() async throws {
        let scene = try await Scene()
        guard FileIdentity(atPath: scene.b.store.path)?.birth != 0 else { return }
        try scene.a.write("two")
        let client = try await scene.a.push().value.client
        let other = scene.url("other.sqlite")
        for store in [scene.b.store, other] { _ = try await scene.b.pull(store).value }
        let dying = try scene.dying("before pull")
        #expect(await code { try await dying.pull(from: client, generation: 1).value } == .remoteUnavailable)
        try scene.b.write("three")
        #expect(await code { try await scene.b.pull().value } == .localChanges)
        try Self.remove(other)
        try Self.move(scene.b.store, to: other)
        #expect(try await scene.b.push(other).value.divergedFrom == [client], "the store doesn't have the edit of a")
    }

    @Test("A store whose pull died keeps its record although another document recorded its file at another path since")
    func recordedElsewhereAfterDeadPull() async throws {
        let scene = try await Scene()
        // Without times of birth, a file may have the reused number of another one.
        guard FileIdentity(atPath: scene.b.store.path)?.birth != 0 else { return }
        try scene.a.write("two")
        _ = try await scene.a.push().value
        #expect(await code { try await scene.dying("before pull").pull().value } == .remoteUnavailable)
        let journal = scene.b.with(document: try RemoteIdentifier("journal"), store: scene.url("journal.sqlite"))
        try Self.move(scene.b.store, to: journal.store)
        _ = try await journal.push().value
        try Self.move(journal.store, to: scene.b.store)
        try scene.b.write("three")
        #expect(try await scene.b.push().value.divergedFrom.isEmpty)
        _ = try await scene.a.pull().value
        #expect(try scene.a.notes() == ["one", "two", "three"])
    }

    @Test("A moved store contains the upload of a push that died before it was remembered")
    func movedAfterDeadPush() async throws {
        let scene = try await Scene()
        // Without times of birth, a file may have the reused number of another one.
        guard FileIdentity(atPath: scene.b.store.path)?.birth != 0 else { return }
        try scene.b.write("two")
        #expect(await code { try await scene.dying("before push").push().value } == .remoteUnavailable)
        let new = scene.url("moved.sqlite")
        try Self.move(scene.b.store, to: new)
        try Store.write(["three"], to: new)
        #expect(try await scene.b.push(new).value.divergedFrom.isEmpty)
        _ = try await scene.a.pull().value
        #expect(try scene.a.notes() == ["one", "two", "three"])
    }

    @Test(
        "Of two exchanged stores, only the pushed store contains the upload of its push, which died",
        arguments: [false, true]
    )
    func exchangedAfterDeadPush(isOtherFirst: Bool) async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        _ = try await scene.b.pull(other).value
        try scene.b.write("two")
        #expect(await code { try await scene.dying("before push").push().value } == .remoteUnavailable)
        try Self.exchange(scene.b.store, other)
        let (pushed, unpushed) = (other, scene.b.store)
        for url in [pushed, unpushed] { try Store.write(["three"], to: url) }
        let first = try await scene.b.push(isOtherFirst ? unpushed : pushed).value
        #expect(first.divergedFrom.count == (isOtherFirst ? 1 : 0))
        let second = try await scene.b.push(isOtherFirst ? pushed : unpushed).value
        #expect(second.divergedFrom.count == 1, "each lacks what the other has")
    }

    @Test("A store that is moved over another one doesn't contain the upload of a push of that one, which died")
    func replacedAfterDeadPush() async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        let client = try await scene.b.pull(other).value.client
        try Store.write(["of the other"], to: other)
        #expect(await code { try await scene.dying("before push").push(other).value } == .remoteUnavailable)
        try Self.remove(other)
        try Self.move(scene.b.store, to: other)
        try Store.write(["three"], to: other)
        #expect(try await scene.b.push(other).value.divergedFrom == [client], "it lacks the edit of the other")
    }

    @Test(
        "A moved store keeps its applied sets if the device dies while it records the move",
        arguments: ["before moved store", "after moved store"]
    )
    func appliedSets(moment: String) async throws {
        let scene = try await Scene()
        try scene.noteApplied("first", in: scene.b.store)
        let new = scene.url("moved.sqlite")
        try Self.move(scene.b.store, to: new)
        let dying = try scene.dying(moment)
        #expect(await code { try await dying.push(new).value } == .remoteUnavailable)
        #expect(try await scene.b.push(new).value.isUnchanged)
        #expect(try scene.applied(in: new) == ["first"])
    }

    @Test(
        "A store that is moved to the path of a former store doesn't get the applied sets of that store",
        arguments: [nil, "before moved store", "after moved store"]
    )
    func appliedSetsOfFormerStore(moment: String?) async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        _ = try await scene.b.pull(other).value
        try scene.noteApplied("other", in: other)
        try scene.noteApplied("first", in: scene.b.store)
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: other.path + suffix) }
        try Self.move(scene.b.store, to: other)
        if let moment {
            let dying = try scene.dying(moment)
            #expect(await code { try await dying.push(other).value } == .remoteUnavailable)
        }
        #expect(try await scene.b.push(other).value.isUnchanged)
        #expect(try scene.applied(in: other) == ["first"])
    }

    @Test("A moved store keeps its applied sets if the application is another one before the move is completed")
    func appliedSetsInOtherEpoch() async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        try scene.noteApplied("first", in: scene.b.store)
        try Self.move(scene.b.store, to: other)
        #expect(await code { try await scene.dying("after moved store").push(other).value } == .remoteUnavailable)
        let pin = ApplicationPin(encryption: nil, epoch: "another", passwordVersion: nil)
        try scene.b.state.setPin(pin, for: scene.a.key)
        #expect(try scene.applied(in: other) == ["first"])
    }

    @Test(
        "Two exchanged stores keep their applied sets if the device dies while it records the exchange",
        arguments: [nil, "before moved store", "after moved store"]
    )
    func exchangedAppliedSets(moment: String?) async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        _ = try await scene.b.pull(other).value
        try scene.noteApplied("first", in: scene.b.store)
        try scene.noteApplied("other", in: other)
        try Self.exchange(scene.b.store, other)
        if let moment {
            let dying = try scene.dying(moment)
            #expect(await code { try await dying.push(other).value } == .remoteUnavailable)
        }
        #expect(try await scene.b.push(other).value.isUnchanged)
        #expect(try await scene.b.push().value.isUnchanged)
        #expect(try scene.applied(in: other) == ["first"])
        #expect(try scene.applied(in: scene.b.store) == ["other"])
    }

    @Test(
        "Two stores that are exchanged twice keep their applied sets although the device dies each time it records that",
        arguments: ["applied sets set aside", "after moved store"],
        ["applied sets set aside", "after moved store"]
    )
    func exchangedTwice(first: String, second: String) async throws {
        let scene = try await Scene()
        let other = scene.url("other.sqlite")
        _ = try await scene.b.pull(other).value
        try scene.noteApplied("first", in: scene.b.store)
        try scene.noteApplied("other", in: other)
        try Self.exchange(scene.b.store, other)
        #expect(await code { try await scene.dying(first).push(other).value } == .remoteUnavailable)
        try Self.exchange(scene.b.store, other)
        // If the first exchange wasn't recorded, neither is the second.
        if first == "after moved store" {
            #expect(await code { try await scene.dying(second).push().value } == .remoteUnavailable)
        }
        #expect(try await scene.b.push().value.isUnchanged)
        #expect(try await scene.b.push(other).value.isUnchanged)
        #expect(try scene.applied(in: scene.b.store) == ["first"])
        #expect(try scene.applied(in: other) == ["other"])
        let applied = scene.b.state.url.appending(path: "applied").path
        #expect(try FileManager.default.contentsOfDirectory(atPath: applied).allSatisfy { !$0.contains(".") })
    }

    #if os(Linux)
    // Elsewhere the file system takes both for one name.
    @Test("Two exchanged stores whose names are one text in two Unicode forms keep their applied sets")
    func exchangedUnicodeForms() async throws {
        let scene = try await Scene()
        let (composed, decomposed) = (scene.url("caf\u{e9}.sqlite"), scene.url("cafe\u{301}.sqlite"))
        for (url, identifier) in [(composed, "composed"), (decomposed, "decomposed")] {
            _ = try await scene.b.pull(url).value
            try scene.noteApplied(identifier, in: url)
        }
        try Self.exchange(composed, decomposed)
        for url in [composed, decomposed] { #expect(try await scene.b.push(url).value.isUnchanged) }
        #expect(try scene.applied(in: composed) == ["decomposed"])
        #expect(try scene.applied(in: decomposed) == ["composed"])
    }
    #endif

    @Test("A file that is created at the path of another isn't the same file, although it may get its inode number")
    func birth() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: url) }
        var identities: Set<FileIdentity> = []
        for round in 1...10 {
            try Data().write(to: url)
            let identity = try #require(FileIdentity(atPath: url.path))
            // On a file system that doesn't record birth times, a reused inode can't be detected.
            guard identity.birth != 0 else { return }
            #expect(identities.insert(identity).inserted, "round \(round)")
            try Data("more".utf8).write(to: url)
            #expect(FileIdentity(atPath: url.path) == identity, "an edit changes nothing")
            try FileManager.default.removeItem(at: url)
        }
        #expect(FileIdentity(atPath: url.path) == nil)
    }

    @Test("Without times of birth, a file at a new path with another name isn't taken for a missing store")
    func reusedNumber() async throws {
        let scene = try await Scene()
        let key = scene.a.documentKey
        let folder = scene.url("folder")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let new = try LocalStore(scene.url("restored.sqlite"))
        let sameName = try LocalStore(folder.appending(path: scene.a.store.lastPathComponent))
        let other = scene.url("other.sqlite")
        _ = try await scene.a.pull(other).value
        var records = try scene.a.state.stores(of: key)
        let index = try #require(records.firstIndex { $0.path == (try? LocalStore(scene.a.store).path) })
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: scene.a.store.path + suffix)
        }
        for birth in [0, 1] {
            let identity = Data(#"{"device": 1, "inode": 2, "birth": \#(birth)}"#.utf8)
            records[index].file = try JSONDecoder().decode(FileIdentity.self, from: identity)
            let record = records[index]
            #expect(scene.a.state.wasMoved(record, to: new, records) == (birth != 0))
            #expect(scene.a.state.wasMoved(record, to: sameName, records))
            #expect(try scene.a.state.wasMoved(record, to: LocalStore(other), records), "the path is a store's already")
        }
    }

    private static func move(_ store: URL, to other: URL) throws {
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: store.path + suffix) {
            try FileManager.default.moveItem(atPath: store.path + suffix, toPath: other.path + suffix)
        }
    }

    private static func remove(_ store: URL) throws {
        for suffix in ["", "-wal", "-shm"] where FileManager.default.fileExists(atPath: store.path + suffix) {
            try FileManager.default.removeItem(atPath: store.path + suffix)
        }
    }

    private static func exchange(_ store: URL, _ other: URL) throws {
        let between = store.appendingPathExtension("between")
        try move(store, to: between)
        try move(other, to: store)
        try move(between, to: other)
    }
}
