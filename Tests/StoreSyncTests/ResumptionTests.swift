import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A transfer that was cut off", .timeLimit(.minutes(60)))
struct ResumptionTests {
    private static let chunk = Int64(RemoteContent.chunkSize)
    /// What a sealed chunk that isn't compressed takes.
    private static let sealedChunk = chunk + 44

    /// Two devices with a line each, and a store of some chunks on the first.
    private struct Scene {
        let deltas: DeltaWorld
        let (a, b): (Device, Device)
        let (lineA, lineB): (CuttingBackend, CuttingBackend)

        init(chunks: Int = 8, isSealed: Bool = true) async throws {
            deltas = try DeltaWorld(isSealed: isSealed)
            let folder = LocalFolderBackend(root: deltas.world.share)
            (lineA, lineB) = (CuttingBackend(folder), CuttingBackend(folder))
            (a, b) = (
                try deltas.world.device("a", backend: lineA), try deltas.world.device("b", backend: lineB)
            )
            try make(chunks)
        }

        /// Makes the first device's store, which isn't a database and can't be compressed.
        func make(_ chunks: Int) throws {
            var generator = SplitMix64(seed: 1)
            try Data(DeltaModel.noise(chunks * Int(chunk) - 1000, &generator)).write(to: a.store)
        }

        /// The document, as both devices remember it.
        var key: DocumentKey {
            DocumentKey(
                application: ApplicationKey(
                    remote: a.backend.identity,
                    application: deltas.world.application.rawValue
                ),
                document: deltas.world.document.rawValue
            )
        }

        /// Changes a byte of the first device's store.
        func change(at offset: Int64) throws {
            let handle = try FileHandle(forUpdating: a.store)
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(offset))
            let byte = try handle.read(upToCount: 1)?.first ?? 0
            try handle.seek(toOffset: UInt64(offset))
            try handle.write(contentsOf: [byte ^ 1])
        }

        /// Changes chunks of the first device's store to what can't be compressed.
        func rewrite(_ chunks: Range<Int64>, seed: UInt64) throws {
            var generator = SplitMix64(seed: seed)
            let handle = try FileHandle(forUpdating: a.store)
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(chunks.lowerBound * chunk))
            try handle.write(contentsOf: Data(DeltaModel.noise(chunks.count * Int(chunk), &generator)))
        }

        /// Pushes a whole copy, and two deltas to it of 3 chunks and 2, one of them the same.
        func pushDeltas() async throws {
            _ = try await a.push().value
            for (chunks, seed) in [(Int64(2)..<5, UInt64(2)), (4..<6, 3)] {
                try rewrite(chunks, seed: seed)
                _ = try await a.push().value
                #expect(try await deltas.newest(a).isDelta)
            }
        }

        /// What has come beside the second device's store, by size.
        func arrivals() throws -> [URL] {
            let directory = b.store.deletingLastPathComponent()
            let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
            return try names.filter { $0.contains("storesync-") }.map { directory.appending(path: $0) }.sorted {
                try $0.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0
                    > $1.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0
            }
        }

        /// Expects that the second device has the first one's store, and nothing else.
        func expectPulled(_ comment: Comment? = nil) throws {
            #expect(try Data(contentsOf: b.store) == Data(contentsOf: a.store), comment)
            let directory = b.store.deletingLastPathComponent().path
            let names = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
            #expect(names == ["state", "store.sqlite"], comment)
        }

        /// Pushes, and expects to be cut off.
        func pushCutOff(after bytes: Int64, by error: any Error = RemoteError(.unavailable, "cut off")) async throws {
            await lineA.cut(after: bytes, by: error)
            await #expect(throws: (any Error).self) { try await a.push().value }
            await lineA.cut(after: nil)
        }

        /// Pushes on the first device, and pulls on the second until that is cut off; returns where what has come is.
        func pullCutOff(after bytes: Int64) async throws -> URL {
            try await pullCutOff(after: bytes, by: RemoteError(.unavailable, "cut off"))
            return try #require(try arrivals().first)
        }

        /// Pushes on the first device, and pulls on the second until that is cut off.
        func pullCutOff(after bytes: Int64, by error: any Error) async throws {
            _ = try await a.push().value
            await lineB.cut(after: bytes, by: error)
            await #expect(throws: (any Error).self) { try await b.pull().value }
            await lineB.cut(after: nil)
        }

        /// Overwrites a few bytes of a file.
        static func overwrite(_ url: URL, at offset: Int64) throws {
            let handle = try FileHandle(forUpdating: url)
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(offset))
            try handle.write(contentsOf: [UInt8](repeating: 0, count: 16))
        }

        /// Pushes whole, and pulls what was pushed on the other device; returns how many bytes were sent.
        func push(_ comment: String = "") async throws -> Int64 {
            await lineA.cut(after: nil)
            let upload = try await a.push().value
            #expect(upload.generation >= 1 && !upload.isUnchanged)
            let sent = await lineA.passedBytes
            try await deltas.expectPulled(b, is: a.store, comment)
            return sent
        }

        /// The names in the folder, without those of folders.
        func files() throws -> [String] {
            let enumerator = try #require(FileManager.default.enumerator(atPath: deltas.world.share.path))
            return enumerator.compactMap { $0 as? String }.filter { $0.hasSuffix(".ticdsync") || $0.hasSuffix(".tmp") }
        }
    }

    @Test(
        "D15: to the remote goes on, and sends at most one chunk again",
        arguments: [0.1, 0.5, 0.8, 0.95],
        [true, false]
    )
    func pushing(share: Double, isSealed: Bool) async throws {
        let scene = try await Scene(chunks: 20, isSealed: isSealed)
        let total = 20 * Self.sealedChunk
        let cut = Int64(Double(total) * share)
        try await scene.pushCutOff(after: cut)
        #expect(try !scene.files().contains { $0.hasSuffix("WholeStore.ticdsync") && !$0.contains("/.storesync-") })
        let sent = try await scene.push()
        #expect(sent <= total - cut + Self.sealedChunk, "\(sent) of \(total) after \(cut)")
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test(
        "from the remote goes on, and fetches at most one chunk again",
        arguments: [0.1, 0.5, 0.95],
        [true, false]
    )
    func pulling(share: Double, isSealed: Bool) async throws {
        let scene = try await Scene(chunks: 20, isSealed: isSealed)
        _ = try await scene.a.push().value
        let total = 20 * Self.sealedChunk
        let cut = Int64(Double(total) * share)
        await scene.lineB.cut(after: cut)
        await #expect(throws: (any Error).self) { try await scene.b.pull().value }
        #expect(!FileManager.default.fileExists(atPath: scene.b.store.path))
        await scene.lineB.cut(after: nil)
        _ = try await scene.b.pull().value
        let fetched = await scene.lineB.passedBytes
        #expect(fetched <= total - cut + 2 * Self.sealedChunk, "\(fetched) of \(total) after \(cut)")
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
        let directory = scene.b.store.deletingLastPathComponent().path
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        #expect(names == ["state", "store.sqlite"])
    }

    @Test("D15: of a delta to the remote goes on, and sends at most one chunk again", arguments: [0.1, 0.5, 0.95])
    func pushingDelta(share: Double) async throws {
        let scene = try await Scene(chunks: 20)
        _ = try await scene.push()
        try scene.rewrite(3..<11, seed: 2)
        let cut = Int64(Double(8 * Self.sealedChunk) * share)
        try await scene.pushCutOff(after: cut)
        #expect(
            try !scene.files().contains { $0.hasSuffix("WholeStoreDelta.ticdsync") && !$0.contains("/.storesync-") }
        )
        let sent = try await scene.push()
        #expect(try await scene.deltas.newest(scene.a).isDelta)
        #expect(sent <= 8 * Self.sealedChunk - cut + Self.sealedChunk + 200, "\(sent) after \(cut)")
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test("of a delta to the remote, where store, base or memory have changed since, is never wrong")
    func changedDelta() async throws {
        let scene = try await Scene(chunks: 20)
        _ = try await scene.push()
        try scene.rewrite(3..<9, seed: 2)
        try await scene.pushCutOff(after: 5 * Self.sealedChunk)
        // Within what had been sent: what comes before stays.
        try scene.rewrite(6..<7, seed: 3)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        // Another delta would stand on the same copy: it begins at another block, so nothing is as it was.
        try scene.rewrite(1..<2, seed: 4)
        #expect(try await scene.push() > 6 * Self.sealedChunk)
        #expect(try await scene.deltas.newest(scene.a).isDelta)
        try scene.rewrite(12..<14, seed: 5)
        try await scene.pushCutOff(after: Self.sealedChunk + 200)
        try FileManager.default.removeItem(at: scene.deltas.pushedBlocks(of: scene.a))
        #expect(try await scene.push() > 19 * Self.sealedChunk)
        #expect(try await !scene.deltas.newest(scene.a).isDelta)
        // What is too small to be gone on with takes the place of what was cut off.
        try scene.rewrite(12..<14, seed: 6)
        try await scene.pushCutOff(after: Self.sealedChunk + 200)
        #expect(scene.a.state.pushJournal(of: scene.key).read() != nil)
        try scene.make(1)
        _ = try await scene.push()
        #expect(scene.a.state.pushJournal(of: scene.key).read() == nil)
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test(
        "of a copy and its deltas from the remote goes on wherever it was cut off, and fetches at most one chunk again"
    )
    func pullingDeltas() async throws {
        let scene = try await Scene(chunks: 14)
        try await scene.pushDeltas()
        let total = 19 * Self.sealedChunk
        // Where a file ends too: before its last chunk, which isn't noted, and after it.
        for cut in [1, 6, 13, 14, 15, 16, 17, 18] as [Int64] {
            try? FileManager.default.removeItem(at: scene.b.store)
            await scene.lineB.cut(after: cut * Self.sealedChunk + 500)
            await #expect(throws: (any Error).self) { try await scene.b.pull(overwrite: true).value }
            #expect(!FileManager.default.fileExists(atPath: scene.b.store.path))
            await scene.lineB.cut(after: nil)
            _ = try await scene.b.pull(overwrite: true).value
            let fetched = await scene.lineB.passedBytes
            // The beginning of a file is looked at again.
            let limit = total - (cut - 1) * Self.sealedChunk + 1000
            #expect(fetched <= limit, "\(fetched) of \(total) after \(cut) chunks")
            try scene.expectPulled("\(cut)")
        }
    }

    @Test(
        "of a copy and its deltas from the remote, all of which have come, fetches nothing again",
        arguments: [0, 1, 2, 3]
    )
    func applying(damage: Int) async throws {
        let scene = try await Scene(chunks: 14)
        let whole = try Data(contentsOf: scene.a.store)
        try await scene.pushDeltas()
        await scene.lineB.hide(WholeStoreFile.appliedSets[0].rawValue)
        await #expect(throws: (any Error).self) { try await scene.b.pull().value }
        await scene.lineB.hide(nil)
        await scene.lineB.cut(after: nil)
        let arrivals = try scene.arrivals()
        #expect(arrivals.count == 3)
        let elsewhere = scene.deltas.world.folder.appending(path: "elsewhere")
        try Data("somebody else's".utf8).write(to: elsewhere)
        switch damage {
        case 0:
            // As if it had died while the deltas were applied.
            let handle = try FileHandle(forUpdating: arrivals[0])
            try handle.seek(toOffset: UInt64(4 * Self.chunk))
            try handle.write(contentsOf: whole[Int(4 * Self.chunk)...].prefix(Int(2 * Self.chunk)))
            try handle.close()
        case 1: try Scene.overwrite(arrivals[0], at: Self.chunk)
        case 2: try Scene.overwrite(arrivals[1], at: Self.chunk)
        default:
            try FileManager.default.removeItem(at: arrivals[0])
            try FileManager.default.createSymbolicLink(at: arrivals[0], withDestinationURL: elsewhere)
        }
        _ = try await scene.b.pull().value
        #expect(try Data(contentsOf: elsewhere) == Data("somebody else's".utf8))
        let fetched = await scene.lineB.passedBytes
        #expect(damage == 0 ? fetched == 0 : fetched > 18 * Self.sealedChunk)
        try scene.expectPulled()
    }

    @Test("of a copy and its deltas from the remote is given up for another copy, and goes on where a delta follows")
    func folded() async throws {
        let scene = try await Scene(chunks: 14)
        try await scene.pushDeltas()
        await scene.lineB.cut(after: 17 * Self.sealedChunk)
        await #expect(throws: (any Error).self) { try await scene.b.pull().value }
        try scene.rewrite(11..<12, seed: 7)
        let following = try await scene.a.push().value
        #expect(try await scene.deltas.newest(scene.a).isDelta && following.storedBytes < 2 * Self.chunk)
        await scene.lineB.cut(after: 2 * Self.sealedChunk)
        await #expect(throws: (any Error).self) { try await scene.b.pull().value }
        try FileManager.default.removeItem(at: scene.deltas.pushedBlocks(of: scene.a))
        try scene.rewrite(0..<1, seed: 8)
        _ = try await scene.a.push().value
        #expect(try await !scene.deltas.newest(scene.a).isDelta)
        await scene.lineB.cut(after: nil)
        _ = try await scene.b.pull().value
        #expect(await scene.lineB.passedBytes > 13 * Self.chunk)
        try scene.expectPulled()
    }

    @Test("again and again gets to its end, a chunk at a time")
    func manyCuts() async throws {
        let scene = try await Scene(chunks: 8)
        for _ in 0..<7 { try await scene.pushCutOff(after: Self.sealedChunk + 200) }
        #expect(try await scene.push() <= 2 * Self.sealedChunk)
    }

    @Test("goes on among compressed chunks, each of another length")
    func compressed() async throws {
        let scene = try await Scene(chunks: 6)
        var generator = SplitMix64(seed: 2)
        let bytes = (0..<6).flatMap { chunk in
            let pattern = DeltaModel.noise(40_000 * (chunk + 1), &generator)
            return (0..<Int(Self.chunk)).map { pattern[$0 % pattern.count] }
        }
        try Data(bytes).write(to: scene.a.store)
        for limit in [30_000, 150_000, 150_000] { try await scene.pushCutOff(after: Int64(limit)) }
        let sent = try await scene.push()
        let whole = try #require(try await scene.deltas.newest(scene.a)[.store])
        #expect(whole.storedSize < 2 * Self.chunk)
        #expect(sent < whole.storedSize - 150_000, "\(sent) of \(whole.storedSize)")
    }

    @Test("when the store has changed since: before, at and after the cut", arguments: [0, 2, 3, 6])
    func changed(chunk: Int64) async throws {
        let scene = try await Scene()
        try await scene.pushCutOff(after: 4 * Self.sealedChunk)
        try scene.change(at: chunk * Self.chunk + 5)
        let sent = try await scene.push()
        #expect(sent <= (8 - min(chunk, 3)) * Self.sealedChunk + 200)
    }

    @Test(
        "that isn't sealed begins anew when the store has changed since, wherever, and goes on when only its date has",
        arguments: [0, 7, nil] as [Int64?]
    )
    func changedPlain(chunk: Int64?) async throws {
        let scene = try await Scene(isSealed: false)
        try await scene.pushCutOff(after: 4 * Self.chunk)
        if let chunk { try scene.change(at: chunk * Self.chunk + 5) } else { try scene.make(8) }
        let sent = try await scene.push()
        #expect((sent > 7 * Self.chunk) == (chunk != nil), "\(sent)")
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty, "\(report)")
    }

    @Test(
        "that isn't sealed, from the remote, with what has come damaged since, is fetched anew",
        arguments: [0, 2, 100]
    )
    func damagedPlainArrival(chunk: Int64) async throws {
        let scene = try await Scene(chunks: 6, isSealed: false)
        let arrival = try await scene.pullCutOff(after: 4 * Self.chunk)
        // Or as if another generation had come there, longer than this one.
        try Scene.overwrite(arrival, at: min(chunk, 7) * Self.chunk)
        _ = try await scene.b.pull().value
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
        let directory = scene.b.store.deletingLastPathComponent().path
        let left = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        #expect(left == ["state", "store.sqlite"])
    }

    @Test("when the store has grown or shrunk since", arguments: [1, 2, 3, 4, 5, 9])
    func resized(chunks: Int) async throws {
        let scene = try await Scene(chunks: 5)
        try await scene.pushCutOff(after: 4 * Self.sealedChunk + 500)
        let handle = try FileHandle(forUpdating: scene.a.store)
        // To whole chunks, so that the last one is as long as the others.
        try handle.truncate(atOffset: UInt64(Int64(chunks) * Self.chunk))
        try handle.close()
        _ = try await scene.push()
    }

    @Test("and whose journal is damaged anywhere, or lost, costs time and is never wrong")
    func damagedJournal() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 3 * Self.sealedChunk)
        let file = scene.a.state.pushJournal(of: scene.key)
        let bytes = try Data(contentsOf: file.url)
        let whole = try #require(file.read())
        #expect(whole.chunks.count >= 2)
        for offset in bytes.indices {
            var damaged = bytes
            damaged[offset] ^= 1 << UInt8(offset % 8)
            try damaged.write(to: file.url)
            let read = file.read()
            // What is left of it is a beginning of what was noted.
            let isOther = read == nil || read?.subject != whole.subject
            #expect(isOther || whole.chunks.starts(with: read?.chunks ?? []))
            let isOfChunk = offset >= bytes.count - 44 * whole.chunks.count
            #expect(isOther || !isOfChunk || read?.chunks.count != whole.chunks.count)
            try bytes.prefix(offset).write(to: file.url)
            #expect(file.read().map { whole.chunks.starts(with: $0.chunks) } ?? true)
        }
        var damaged = bytes
        damaged[damaged.count - 50] ^= 1
        try damaged.write(to: file.url)
        #expect(try await scene.push() > 2 * Self.sealedChunk)
    }

    @Test("and of which the remote has kept nothing begins anew")
    func nothingKept() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 3 * Self.sealedChunk)
        for name in try scene.files() where name.hasSuffix(".tmp") {
            try FileManager.default.removeItem(at: scene.deltas.world.share.appending(path: name))
        }
        #expect(try await scene.push() > 3 * Self.sealedChunk)
    }

    @Test("by being cancelled is given up, and leaves nothing")
    func cancelled() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk, by: CancellationError())
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        #expect(try await scene.push() > 3 * Self.sealedChunk)
    }

    @Test("is given up if another device has pushed since")
    func overtaken() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        try Data("other".utf8).write(to: scene.b.store)
        let other = try await scene.b.push().value
        #expect(await code { try await scene.a.push().value } == .unrelatedStore)
        let upload = try await scene.a.push(resolves: true).value
        #expect(upload.generation > other.generation)
        #expect(await scene.lineA.passedBytes > 3 * Self.sealedChunk)
    }

    @Test(
        "between the store's last byte and its publication begins anew under another name",
        arguments: [true, false]
    )
    func cutOffBeforePublication(isSealed: Bool) async throws {
        let scene = try await Scene(chunks: 3, isSealed: isSealed)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        // As if the file had got its name, and the device had died then.
        let partial = try #require(try scene.files().first { $0.hasSuffix(".tmp") })
        let url = scene.deltas.world.share.appending(path: partial)
        let name = url.deletingLastPathComponent().appending(path: "WholeStore.ticdsync")
        try FileManager.default.moveItem(at: url, to: name)
        #expect(try await scene.push() > 2 * Self.sealedChunk)
        #expect(!FileManager.default.fileExists(atPath: name.path))
    }

    @Test("and whose device's memory lives twice is published by one of them, and what is published opens")
    func twoMemories() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        let twin = scene.a.state.url.deletingLastPathComponent().deletingLastPathComponent().appending(path: "twin")
        try FileManager.default.createDirectory(at: twin, withIntermediateDirectories: true)
        try FileManager.default.copyItem(at: scene.a.state.url, to: twin.appending(path: "state"))
        let state = try StateDirectory(url: twin.appending(path: "state"))
        let registration = try await scene.a.registerDocument(mayCreate: false).value
        // Both take the same store, which the journal names by its path, at once; the locks are the memory's.
        let outcomes = await withTaskGroup(of: Result<WholeStoreUpload, any Error>.self) { group in
            for memory in [scene.a.state, state] {
                let push = WholeStoreUploadOperation(
                    WholeStoreUploadRequest(url: scene.a.store),
                    document: registration,
                    backend: scene.lineA,
                    state: memory
                )
                group.addTask { await scene.a.supervisor.add(push).result.mapError { $0 as any Error } }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let published = outcomes.compactMap { try? $0.get() }
        #expect(!published.isEmpty)
        _ = try await scene.b.pull(overwrite: true).value
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
        let report = try await scene.b.verify().value
        #expect(report.problems.isEmpty, "\(report)")
    }

    @Test("from the remote, with what has come changed since, is fetched anew from there on", arguments: [0, 2, 100])
    func damagedArrival(chunk: Int64) async throws {
        let scene = try await Scene(chunks: 6)
        let arrival = try await scene.pullCutOff(after: 4 * Self.sealedChunk)
        if chunk < 6 {
            try Scene.overwrite(arrival, at: chunk * Self.chunk)
        } else {
            try FileManager.default.removeItem(at: arrival)
        }
        _ = try await scene.b.pull().value
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
        let expected = chunk == 2 ? 4 : 6
        #expect(await scene.lineB.passedBytes <= Int64(expected) * Self.sealedChunk + 400)
    }

    @Test(
        "from the remote goes on after expired credentials too, and leaves nothing where that is of no use",
        arguments: [RemoteError.Code.unavailable, .unauthorized, .notAllowed, .wrongLength]
    )
    func refusedPull(code: RemoteError.Code) async throws {
        let scene = try await Scene(chunks: 6)
        try await scene.pullCutOff(after: 4 * Self.sealedChunk, by: RemoteError(code, "cut off"))
        let goesOn = code != .wrongLength
        #expect(try scene.arrivals().count == (goesOn ? 1 : 0))
        _ = try await scene.b.pull().value
        try scene.expectPulled()
        let fetched = await scene.lineB.passedBytes
        #expect(goesOn ? fetched <= 3 * Self.sealedChunk : fetched > 5 * Self.sealedChunk, "\(fetched)")
    }

    @Test("from the remote leaves nothing where the store turns out to be there already")
    func alreadyThere() async throws {
        let scene = try await Scene(chunks: 3)
        _ = try await scene.a.push().value
        await scene.lineB.cut(after: 2 * Self.sealedChunk)
        await #expect(throws: (any Error).self) { try await scene.b.pull().value }
        await scene.lineB.cut(after: nil)
        try FileManager.default.copyItem(at: scene.a.store, to: scene.b.store)
        let journal = scene.b.state.pullJournal(of: try LocalStore(scene.b.store).path, in: scene.key)
        #expect(journal.read() != nil)
        #expect(try await scene.b.pull().value.isUnchanged)
        #expect(journal.read() == nil)
        let directory = scene.b.store.deletingLastPathComponent().path
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        #expect(names == ["state", "store.sqlite"])
    }

    @Test("from the remote is given up for a newer generation, and one that builds on it goes on with the whole copy")
    func newerGeneration() async throws {
        let scene = try await Scene(chunks: 6)
        _ = try await scene.a.push().value
        await scene.lineB.cut(after: 4 * Self.sealedChunk)
        await #expect(throws: (any Error).self) { try await scene.b.pull().value }
        try scene.change(at: 5)
        _ = try await scene.a.push().value
        #expect(try await scene.deltas.newest(scene.a).isDelta)
        await scene.lineB.cut(after: nil)
        _ = try await scene.b.pull().value
        #expect(await scene.lineB.passedBytes <= 4 * Self.sealedChunk)
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
    }
}
