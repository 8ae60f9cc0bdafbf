import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A transfer that was cut off", .timeLimit(.minutes(60)))
struct ResumptionTests {
    private static let chunk = Int64(RemoteContent.chunkSize)
    /// The size of a sealed chunk that isn't compressed.
    private static let sealedChunk = chunk + 44

    /// Two devices with a connection each, and a store of some chunks on the first device.
    private struct Scene {
        let deltas: DeltaFixture
        let (a, b): (Device, Device)
        let (lineA, lineB): (CuttingBackend, CuttingBackend)

        init(chunks: Int = 8, isSealed: Bool = true) async throws {
            deltas = try DeltaFixture(isSealed: isSealed)
            let folder = LocalFolderBackend(root: deltas.fixture.share)
            (lineA, lineB) = (CuttingBackend(folder), CuttingBackend(folder))
            (a, b) = (
                try deltas.fixture.device("a", backend: lineA), try deltas.fixture.device("b", backend: lineB)
            )
            try make(chunks)
        }

        /// Creates the first device's store, which isn't a database and can't be compressed.
        func make(_ chunks: Int) throws {
            var generator = SplitMix64(seed: 1)
            try Data(DeltaModel.noise(chunks * Int(chunk) - 1000, &generator)).write(to: a.store)
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

        /// Overwrites chunks of the first device's store with bytes that can't be compressed.
        func rewrite(_ chunks: Range<Int64>, seed: UInt64) throws {
            var generator = SplitMix64(seed: seed)
            let handle = try FileHandle(forUpdating: a.store)
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(chunks.lowerBound * chunk))
            try handle.write(contentsOf: Data(DeltaModel.noise(chunks.count * Int(chunk), &generator)))
        }

        /// Pushes a whole copy, and two deltas of 3 and 2 chunks, which have one chunk in common.
        func pushDeltas() async throws {
            _ = try await a.push().value
            for (chunks, seed) in [(Int64(2)..<5, UInt64(2)), (4..<6, 3)] {
                try rewrite(chunks, seed: seed)
                _ = try await a.push().value
                #expect(try await deltas.newest(a).isDelta)
            }
        }

        /// Returns the partial downloads beside the second device's store, the largest first.
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

        /// Pushes on the first device, pulls on the second until that is cut off, and returns the partial download.
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

        /// A device with another state directory, and with the second device's store.
        func third(_ backend: any RemoteBackend) throws -> Device {
            try deltas.fixture.device("c", backend: backend).with(store: b.store)
        }

        /// Overwrites a few bytes of a file.
        static func overwrite(_ url: URL, at offset: Int64) throws {
            let handle = try FileHandle(forUpdating: url)
            defer { try? handle.close() }
            try handle.seek(toOffset: UInt64(offset))
            try handle.write(contentsOf: [UInt8](repeating: 0, count: 16))
        }

        /// Completes a push, pulls it on the other device, and returns the number of bytes that were sent.
        func push(_ comment: String = "") async throws -> Int64 {
            await lineA.cut(after: nil)
            let upload = try await a.push().value
            #expect(upload.generation >= 1 && !upload.isUnchanged)
            let sent = await lineA.passedBytes
            try await deltas.expectSeals(a, comment)
            try await deltas.expectPulled(b, is: a.store, comment)
            return sent
        }

        /// Returns the paths of complete and partial data files in the shared folder.
        func files() throws -> [String] {
            let enumerator = try #require(FileManager.default.enumerator(atPath: deltas.fixture.share.path))
            return enumerator.compactMap { $0 as? String }.filter { $0.hasSuffix(".ticdsync") || $0.hasSuffix(".tmp") }
        }
    }

    @Test("A partial download that shares its file with the store is never written to", arguments: [true, false])
    func linked(isSealed: Bool) async throws {
        let scene = try await Scene(isSealed: isSealed)
        let arrival = try await scene.pullCutOff(after: 3 * Self.chunk)
        // As if the device had died while it gave the download the store's place, and an app had edited the store since.
        #expect(link(arrival.path, scene.b.store.path) == 0)
        let handle = try FileHandle(forWritingTo: scene.b.store)
        try handle.seekToEnd()
        try handle.write(contentsOf: [1, 2, 3])
        try handle.close()
        let edited = try Data(contentsOf: scene.b.store)
        await scene.lineB.cut(after: 2 * Self.chunk)
        #expect(await code { try await scene.b.pull(overwrite: true).value } == .remoteUnavailable)
        #expect(try Data(contentsOf: scene.b.store) == edited)
        await scene.lineB.cut(after: nil)
        _ = try await scene.b.pull(overwrite: true).value
        try scene.expectPulled()
    }

    @Test("Pulls of two state directories into one store at once never mix their downloads", arguments: [true, false])
    func twoStateDirectories(isSealed: Bool) async throws {
        for isFirstFaster in [true, false] {
            let scene = try await Scene(isSealed: isSealed)
            _ = try await scene.a.push().value
            let folder = LocalFolderBackend(root: scene.deltas.fixture.share)
            let lines = [PausingBackend(folder), PausingBackend(folder)]
            let devices = [
                try scene.deltas.fixture.device("b", backend: lines[0]), try scene.third(lines[1]),
            ]
            var pulls: [OperationHandle<WholeStoreDownload>] = []
            for (device, line) in zip(devices, lines) {
                pulls.append(device.pull())
                await line.reachesPause()
            }
            for index in isFirstFaster ? [0, 1] : [1, 0] {
                await lines[index].goOn()
                switch await pulls[index].result {
                case .success: #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
                case .failure(let error as StoreSyncError):
                    #expect([.busy, .localChanges].contains(error.code), "\(error)")
                case .failure(let error): throw error
                }
            }
            #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
            #expect(try scene.arrivals().isEmpty)
        }
    }

    @Test(
        "D15: A push that was cut off resumes, and sends at most one chunk again",
        arguments: TestDepth.choose(quick: [0.1, 0.8], deep: [0.1, 0.5, 0.8, 0.95]),
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
        "A pull that was cut off resumes, and fetches at most one chunk again",
        arguments: TestDepth.choose(quick: [0.1, 0.95], deep: [0.1, 0.5, 0.95]),
        [true, false]
    )
    func pulling(share: Double, isSealed: Bool) async throws {
        let scene = try await Scene(chunks: 20, isSealed: isSealed)
        _ = try await scene.a.push().value
        let total = 20 * Self.sealedChunk
        let cut = Int64(Double(total) * share)
        await scene.lineB.cut(after: cut)
        #expect(await code { try await scene.b.pull().value } == .remoteUnavailable)
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

    @Test(
        "D15: A push of a delta that was cut off resumes, and sends at most one chunk again",
        arguments: TestDepth.choose(quick: [0.5, 0.95], deep: [0.1, 0.5, 0.95])
    )
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

    @Test("A push of a delta that was cut off is right although store, base or memory have changed since")
    func changedDelta() async throws {
        let scene = try await Scene(chunks: 20)
        _ = try await scene.push()
        try scene.rewrite(3..<9, seed: 2)
        try await scene.pushCutOff(after: 5 * Self.sealedChunk)
        // A change within the bytes that were sent: the bytes before it are kept.
        try scene.rewrite(6..<7, seed: 3)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        // The new delta has the same base but starts at another block, so none of the sent bytes can be kept.
        try scene.rewrite(1..<2, seed: 4)
        #expect(try await scene.push() > 6 * Self.sealedChunk)
        #expect(try await scene.deltas.newest(scene.a).isDelta)
        try scene.rewrite(12..<14, seed: 5)
        try await scene.pushCutOff(after: Self.sealedChunk + 200)
        try FileManager.default.removeItem(at: scene.deltas.pushedBlocks(of: scene.a))
        #expect(try await scene.push() > 19 * Self.sealedChunk)
        #expect(try await !scene.deltas.newest(scene.a).isDelta)
        // A file that is too small to be resumed replaces the partial one.
        try scene.rewrite(12..<14, seed: 6)
        try await scene.pushCutOff(after: Self.sealedChunk + 200)
        #expect(scene.a.state.pushJournal(of: scene.a.documentKey).read() != nil)
        try scene.make(1)
        _ = try await scene.push()
        #expect(scene.a.state.pushJournal(of: scene.a.documentKey).read() == nil)
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test(
        "A pull of a copy and its deltas resumes wherever it was cut off, and fetches at most one chunk again"
    )
    func pullingDeltas() async throws {
        let scene = try await Scene(chunks: 14)
        try await scene.pushDeltas()
        let total = 19 * Self.sealedChunk
        // Also where a file ends: before its last chunk, which the journal doesn't record, and after it.
        for cut in [1, 6, 13, 14, 15, 16, 17, 18] as [Int64] {
            try? FileManager.default.removeItem(at: scene.b.store)
            await scene.lineB.cut(after: cut * Self.sealedChunk + 500)
            #expect(await code { try await scene.b.pull(overwrite: true).value } == .remoteUnavailable)
            #expect(!FileManager.default.fileExists(atPath: scene.b.store.path))
            await scene.lineB.cut(after: nil)
            _ = try await scene.b.pull(overwrite: true).value
            let fetched = await scene.lineB.passedBytes
            // The beginning of a file is read again.
            let limit = total - (cut - 1) * Self.sealedChunk + 1000
            #expect(fetched <= limit, "\(fetched) of \(total) after \(cut) chunks")
            try scene.expectPulled("\(cut)")
        }
    }

    @Test(
        "A pull that was cut off after all its deltas had arrived fetches nothing again, unless they are damaged",
        arguments: [0, 1, 2, 3]
    )
    func applying(damage: Int) async throws {
        let scene = try await Scene(chunks: 14)
        let whole = try Data(contentsOf: scene.a.store)
        try await scene.pushDeltas()
        await scene.lineB.hide(WholeStoreFile.appliedSets[0].rawValue)
        #expect(await code { try await scene.b.pull().value } == .remoteUnavailable)
        await scene.lineB.hide(nil)
        await scene.lineB.cut(after: nil)
        let arrivals = try scene.arrivals()
        #expect(arrivals.count == 3)
        let elsewhere = scene.deltas.fixture.folder.appending(path: "elsewhere")
        try Data("another program's".utf8).write(to: elsewhere)
        switch damage {
        case 0:
            // As if the device had died while it applied the deltas.
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
        #expect(try Data(contentsOf: elsewhere) == Data("another program's".utf8))
        let fetched = await scene.lineB.passedBytes
        #expect(damage == 0 ? fetched == 0 : fetched > 18 * Self.sealedChunk)
        try scene.expectPulled()
    }

    @Test("A pull of a copy and its deltas resumes if another delta follows, and starts over for another copy")
    func folded() async throws {
        let scene = try await Scene(chunks: 14)
        try await scene.pushDeltas()
        await scene.lineB.cut(after: 17 * Self.sealedChunk)
        #expect(await code { try await scene.b.pull().value } == .remoteUnavailable)
        try scene.rewrite(11..<12, seed: 7)
        let following = try await scene.a.push().value
        #expect(try await scene.deltas.newest(scene.a).isDelta && following.storedBytes < 2 * Self.chunk)
        await scene.lineB.cut(after: 2 * Self.sealedChunk)
        #expect(await code { try await scene.b.pull().value } == .remoteUnavailable)
        try FileManager.default.removeItem(at: scene.deltas.pushedBlocks(of: scene.a))
        try scene.rewrite(0..<1, seed: 8)
        _ = try await scene.a.push().value
        #expect(try await !scene.deltas.newest(scene.a).isDelta)
        await scene.lineB.cut(after: nil)
        _ = try await scene.b.pull().value
        #expect(await scene.lineB.passedBytes > 13 * Self.chunk)
        try scene.expectPulled()
    }

    @Test("A push that is cut off again and again completes, a chunk at a time")
    func manyCuts() async throws {
        let scene = try await Scene(chunks: 8)
        for _ in 0..<7 { try await scene.pushCutOff(after: Self.sealedChunk + 200) }
        #expect(try await scene.push() <= 2 * Self.sealedChunk)
    }

    @Test(
        "P16: A push that was cut off resumes with another choice of compression",
        arguments: [StoreCompression.off, .strong]
    )
    func otherCompression(compression: StoreCompression) async throws {
        let scene = try await Scene(chunks: 6)
        var generator = SplitMix64(seed: 3)
        let pattern = DeltaModel.noise(500_000, &generator)
        try Data((0..<6 * Int(Self.chunk)).map { pattern[$0 % pattern.count] }).write(to: scene.a.store)
        try await scene.pushCutOff(after: 2 * Self.chunk)
        _ = try await scene.a.push(compression: compression).value
        #expect(await scene.lineA.passedBytes < 6 * Self.chunk)
        try await scene.deltas.expectSeals(scene.a)
        try await scene.deltas.expectPulled(scene.b, is: scene.a.store, "\(compression)")
        #expect(try await scene.a.verify().value.problems.isEmpty)
    }

    @Test("A push that was cut off resumes among compressed chunks of different lengths")
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

    @Test(
        "A push that was cut off resumes although the store has changed before, at or after the cut",
        arguments: [0, 2, 3, 6]
    )
    func changed(chunk: Int64) async throws {
        let scene = try await Scene()
        try await scene.pushCutOff(after: 4 * Self.sealedChunk)
        try scene.change(at: chunk * Self.chunk + 5)
        let sent = try await scene.push()
        #expect(sent <= (8 - min(chunk, 3)) * Self.sealedChunk + 200)
    }

    @Test(
        "A push that isn't sealed resumes before the chunk that has changed since, whatever the file's date",
        arguments: [0, 2, 3, 7, nil] as [Int64?]
    )
    func changedPlain(chunk: Int64?) async throws {
        let scene = try await Scene(isSealed: false)
        try await scene.pushCutOff(after: 4 * Self.chunk)
        if let chunk { try scene.change(at: chunk * Self.chunk + 5) } else { try scene.make(8) }
        let sent = try await scene.push()
        // The last chunk is shorter by 1,000 bytes.
        #expect(sent == (8 - min(chunk ?? 4, 4)) * Self.chunk - 1000)
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty, "\(report)")
    }

    @Test(
        "A pull that isn't sealed fetches everything again if its partial download was damaged since",
        arguments: [0, 2, 100]
    )
    func damagedPlainArrival(chunk: Int64) async throws {
        let scene = try await Scene(chunks: 6, isSealed: false)
        let arrival = try await scene.pullCutOff(after: 4 * Self.chunk)
        // Or as if another, longer generation had been downloaded there.
        try Scene.overwrite(arrival, at: min(chunk, 7) * Self.chunk)
        _ = try await scene.b.pull().value
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
        let directory = scene.b.store.deletingLastPathComponent().path
        let left = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        #expect(left == ["state", "store.sqlite"])
    }

    @Test(
        "A push that was cut off completes although the store has grown or shrunk since",
        arguments: [1, 2, 3, 4, 5, 9]
    )
    func resized(chunks: Int) async throws {
        let scene = try await Scene(chunks: 5)
        try await scene.pushCutOff(after: 4 * Self.sealedChunk + 500)
        let handle = try FileHandle(forUpdating: scene.a.store)
        // To whole chunks, so that the last one is as long as the others.
        try handle.truncate(atOffset: UInt64(Int64(chunks) * Self.chunk))
        try handle.close()
        _ = try await scene.push()
    }

    @Test("A push that was cut off is right, but takes longer, if its journal is damaged anywhere or lost")
    func damagedJournal() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 3 * Self.sealedChunk)
        let file = scene.a.state.pushJournal(of: scene.a.documentKey)
        let bytes = try Data(contentsOf: file.url)
        let whole = try #require(file.read())
        #expect(whole.chunks.count >= 2)
        for offset in bytes.indices {
            var damaged = bytes
            damaged[offset] ^= 1 << UInt8(offset % 8)
            try damaged.write(to: file.url)
            let read = file.read()
            // The readable part is a prefix of the recorded chunks.
            let isOther = read == nil || read?.subject != whole.subject
            #expect(isOther || whole.chunks.starts(with: read?.chunks ?? []))
            let isOfChunk = offset >= bytes.count - 84 * whole.chunks.count
            #expect(isOther || !isOfChunk || read?.chunks.count != whole.chunks.count)
            try bytes.prefix(offset).write(to: file.url)
            #expect(file.read().map { whole.chunks.starts(with: $0.chunks) } ?? true)
        }
        var damaged = bytes
        damaged[damaged.count - 50] ^= 1
        try damaged.write(to: file.url)
        #expect(try await scene.push() > 2 * Self.sealedChunk)
    }

    @Test("A push of which the remote has kept nothing starts over")
    func nothingKept() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 3 * Self.sealedChunk)
        for name in try scene.files() where name.hasSuffix(".tmp") {
            try FileManager.default.removeItem(at: scene.deltas.fixture.share.appending(path: name))
        }
        #expect(try await scene.push() > 3 * Self.sealedChunk)
    }

    @Test("A push that is cancelled is discarded, and leaves nothing behind")
    func cancelled() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk, by: CancellationError())
        #expect(try !scene.files().contains { $0.hasSuffix(".tmp") })
        #expect(scene.a.state.pushJournal(of: scene.a.documentKey).read() == nil)
        #expect(try await scene.a.verify(repairs: true).value.problems.isEmpty)
        #expect(try !scene.files().contains { $0.contains("/WholeStore/") })
        #expect(try await scene.push() > 3 * Self.sealedChunk)
    }

    @Test("A push that was cut off is discarded if another device has pushed since")
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
        "A push that was cut off after the store's last byte and before publication starts over under another name",
        arguments: [true, false]
    )
    func cutOffBeforePublication(isSealed: Bool) async throws {
        let scene = try await Scene(chunks: 3, isSealed: isSealed)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        // As if the file had got its final name, and the device had died before publication.
        let partial = try #require(try scene.files().first { $0.hasSuffix(".tmp") })
        let url = scene.deltas.fixture.share.appending(path: partial)
        let name = url.deletingLastPathComponent().appending(path: "WholeStore.ticdsync")
        try FileManager.default.moveItem(at: url, to: name)
        #expect(try await scene.push() > 2 * Self.sealedChunk)
        #expect(!FileManager.default.fileExists(atPath: name.path))
    }

    @Test("Of two copies of a device's memory that push, at least one publishes, and the upload opens")
    func twoMemories() async throws {
        let scene = try await Scene(chunks: 4)
        try await scene.pushCutOff(after: 2 * Self.sealedChunk)
        let twin = scene.a.state.url.deletingLastPathComponent().deletingLastPathComponent().appending(path: "twin")
        try FileManager.default.createDirectory(at: twin, withIntermediateDirectories: true)
        try FileManager.default.copyItem(at: scene.a.state.url, to: twin.appending(path: "state"))
        let state = try StateDirectory(url: twin.appending(path: "state"))
        let registration = try await scene.a.registerDocument(mayCreate: false).value
        // Both push the same store, which the journal names by its path, concurrently. Each memory has its own locks.
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

    @Test("A pull whose partial download was damaged in any chunk, wherever it was cut off, notices it and starts over")
    func damagedArrival() async throws {
        let scene = try await Scene(chunks: 6)
        for cut in 2..<6 as Range<Int64> {
            for chunk in 0..<cut - 1 {
                let arrival = try await scene.pullCutOff(after: cut * Self.sealedChunk + 500)
                try Scene.overwrite(arrival, at: chunk * Self.chunk + 7)
                _ = try await scene.b.pull().value
                let fetched = await scene.lineB.passedBytes
                // The rest, and then everything.
                let limit = (6 - cut + 2 + 6) * Self.sealedChunk + 1000
                #expect((6 * Self.chunk..<limit).contains(fetched), "\(chunk) of \(cut): \(fetched)")
                try scene.expectPulled("\(chunk) of \(cut)")
                try FileManager.default.removeItem(at: scene.b.store)
            }
        }
    }

    @Test("A pull whose partial download is missing or shorter than its journal says resumes with what is there")
    func shortArrival() async throws {
        let scene = try await Scene(chunks: 6)
        for length in [nil, 0, Self.chunk - 1, 2 * Self.chunk, 3 * Self.chunk - 1] {
            let arrival = try await scene.pullCutOff(after: 5 * Self.sealedChunk)
            if let length {
                let handle = try FileHandle(forUpdating: arrival)
                try handle.truncate(atOffset: UInt64(length))
                try handle.close()
            } else {
                try FileManager.default.removeItem(at: arrival)
            }
            _ = try await scene.b.pull().value
            let missing = 6 - (length ?? 0) / Self.chunk
            let fetched = await scene.lineB.passedBytes
            #expect(fetched <= missing * Self.sealedChunk + 1000, "\(length ?? -1): \(fetched)")
            try scene.expectPulled("\(length ?? -1)")
            try FileManager.default.removeItem(at: scene.b.store)
        }
    }

    @Test("A pull that resumes an undamaged download of a damaged upload is refused")
    func damagedUpload() async throws {
        let scene = try await Scene(chunks: 6)
        _ = try await scene.pullCutOff(after: 4 * Self.sealedChunk)
        let file = try #require(try scene.files().first { $0.hasSuffix("WholeStore.ticdsync") })
        try Scene.overwrite(scene.deltas.fixture.share.appending(path: file), at: 5 * Self.sealedChunk + 200)
        #expect(await code { try await scene.b.pull().value } == .tampered)
        #expect(try scene.arrivals().isEmpty && !FileManager.default.fileExists(atPath: scene.b.store.path))
    }

    @Test(
        "A pull resumes after expired credentials too, and leaves nothing behind if it can't be resumed",
        arguments: [RemoteError.Code.unavailable, .unauthorized, .notAllowed, .wrongLength]
    )
    func refusedPull(code: RemoteError.Code) async throws {
        let scene = try await Scene(chunks: 6)
        try await scene.pullCutOff(after: 4 * Self.sealedChunk, by: RemoteError(code, "cut off"))
        let isResumed = code != .wrongLength
        #expect(try scene.arrivals().count == (isResumed ? 1 : 0))
        _ = try await scene.b.pull().value
        try scene.expectPulled()
        let fetched = await scene.lineB.passedBytes
        #expect(isResumed ? fetched <= 3 * Self.sealedChunk : fetched > 5 * Self.sealedChunk, "\(fetched)")
    }

    @Test("A pull that was cut off leaves nothing behind if the store turns out to exist already")
    func alreadyThere() async throws {
        let scene = try await Scene(chunks: 3)
        _ = try await scene.a.push().value
        await scene.lineB.cut(after: 2 * Self.sealedChunk)
        #expect(await code { try await scene.b.pull().value } == .remoteUnavailable)
        await scene.lineB.cut(after: nil)
        try FileManager.default.copyItem(at: scene.a.store, to: scene.b.store)
        let journal = scene.b.state.pullJournal(of: try LocalStore(scene.b.store).path, in: scene.b.documentKey)
        #expect(journal.read() != nil)
        #expect(try await scene.b.pull().value.isUnchanged)
        #expect(journal.read() == nil)
        let directory = scene.b.store.deletingLastPathComponent().path
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        #expect(names == ["state", "store.sqlite"])
    }

    @Test("A pull is discarded for a newer generation, but its whole copy is resumed if that generation builds on it")
    func newerGeneration() async throws {
        let scene = try await Scene(chunks: 6)
        _ = try await scene.a.push().value
        await scene.lineB.cut(after: 4 * Self.sealedChunk)
        #expect(await code { try await scene.b.pull().value } == .remoteUnavailable)
        try scene.change(at: 5)
        _ = try await scene.a.push().value
        #expect(try await scene.deltas.newest(scene.a).isDelta)
        await scene.lineB.cut(after: nil)
        _ = try await scene.b.pull().value
        #expect(await scene.lineB.passedBytes <= 4 * Self.sealedChunk)
        #expect(try Data(contentsOf: scene.b.store) == Data(contentsOf: scene.a.store))
    }
}

/// A storage whose first large file stops after its first chunk until the test lets it continue.
private actor PausingBackend: ForwardingBackend {
    nonisolated let base: any RemoteBackend
    private let (reached, reachedContinuation) = AsyncStream.makeStream(of: Void.self)
    private let (open, openContinuation) = AsyncStream.makeStream(of: Void.self)

    init(_ base: any RemoteBackend) { self.base = base }

    /// Returns when the first chunk was read.
    func reachesPause() async { for await _ in reached { return } }

    func goOn() { openContinuation.finish() }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        guard let content = try await base.read(path, range: range) else { return nil }
        guard (content.length ?? 0) > 1 << 20 else { return content }
        return RemoteContent(length: content.length) { [open, reachedContinuation] in
            var iterator = content.makeAsyncIterator()
            var isFirst = true
            return {
                if !isFirst {
                    reachedContinuation.finish()
                    for await _ in open {}
                }
                isFirst = false
                return try await iterator.next()
            }
        }
    }
}
