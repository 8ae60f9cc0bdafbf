import ContentDigests
import OperationsTesting
import Testing
import ThreadSupport

@testable import SyncCryptography

@Suite("Sealing and opening while reading", .timeLimit(.minutes(60)))
struct StreamingTests {
    private static let sizes = [0, 1, 4095, 4096, 4097, 40_960, 41_000]

    @Test(
        "Sealing a stream equals sealing in memory, whatever pieces the source gives",
        arguments: sizes,
        [[1009], [4096], [1, 70_000, 64]]
    )
    func equalsMemory(count: Int, pieces: [Int]) async throws {
        let key = try Fixture.key()
        let content = [UInt8].noise(count / 2) + [UInt8].text(count - count / 2)
        try await SealingWorkers.withWorkers { workers in
            let ends = Locked<[ContentSummary]>([])
            let sealing = key.sealing(
                Pieces(bytes: content, sizes: pieces),
                as: Fixture.context,
                options: Fixture.smallChunks,
                on: workers,
                onEnd: { summary in ends.withLock { $0.append(summary) } }
            )
            let sealed = try await collect(sealing)
            #expect(try key.open(sealed, as: Fixture.context, upTo: count) == content)
            let inMemory = key.seal(content, as: Fixture.context, options: Fixture.smallChunks)
            #expect(sealed.count == inMemory.count)
            for file in [sealed, inMemory] {
                let opening = key.opening(
                    Pieces(bytes: file, sizes: pieces),
                    as: Fixture.context,
                    on: workers,
                    onEnd: { summary in ends.withLock { $0.append(summary) } }
                )
                #expect(try await collect(opening) == content)
            }
            var hasher = ContentRootHasher(key.pageHash)
            hasher.update(content)
            let root = hasher.finalize()
            for summary in ends.withLock({ $0 }) {
                #expect(summary.plainBytes == count && summary.sealedBytes == sealed.count)
            }
            let summaries = ends.withLock { $0 }
            #expect(summaries.map(\.digests?.root) == [root, nil, nil])
            #expect(summaries.map { $0.seals == summaries[0].seals } == [true, true, false])
        }
    }

    @Test("Digesting on all cores gives the root that the hasher gives", arguments: [0, 1, 1 << 20, 5_000_000])
    func contentRoot(count: Int) async throws {
        let content = [UInt8].noise(count)
        var hasher = ContentRootHasher()
        hasher.update(content)
        let root = hasher.finalize()
        for sizes in [[1 << 20], [70_000, 1]] {
            let (byteCount, found) = try await SealingWorkers.withWorkers {
                try await ContentRoot.of(Pieces(bytes: content, sizes: sizes), .plain, on: $0)
            }
            #expect(byteCount == count && found == root)
        }
    }

    @Test("Compression takes less effort while workers are busy, more while they wait for the medium")
    func adaptiveCompression() async throws {
        var effort = CompressionEffort(.adaptive)
        #expect(effort.level == 2)
        for _ in 0..<3 { effort.note(isIdle: false) }
        effort.note(isIdle: true)
        #expect(effort.level == 2, "the level changes only after several chunks in a row")
        for _ in 0..<100 { effort.note(isIdle: true) }
        #expect(effort.level == CompressionEffort.levels.last)
        for _ in 0..<100 { effort.note(isIdle: false) }
        #expect(effort.level == CompressionEffort.levels.first)
        var fixed = CompressionEffort(.zstd(level: 7))
        for _ in 0..<100 { fixed.note(isIdle: false) }
        #expect(fixed.level == 7)

        let key = try Fixture.key()
        let content = [UInt8].text(400_000)
        try await SealingWorkers.withWorkers { workers in
            let options = SealingOptions(chunkSize: 4096, compression: .adaptive)
            let source = Pieces(bytes: content, sizes: [4096])
            let sealed = try await collect(key.sealing(source, as: Fixture.context, options: options, on: workers))
            #expect(sealed.count < content.count / 2)
            #expect(try key.open(sealed, as: Fixture.context, upTo: content.count) == content)
        }
    }

    @Test("A pass that waits for its workers compresses less than a pass that waits for its medium", arguments: 0..<5)
    func effortOfAPass(seed: UInt64) async throws {
        let key = try Fixture.key()
        // Rows that are alike, whose repetitions a harder search finds.
        let rows = (0..<100_000).map { "note \($0), folder \($0 % 7), \($0 &* 2_654_435_761 % 100_003)\n" }
        let content = Array(rows.joined().utf8)
        let options = SealingOptions(chunkSize: 1 << 16, compression: .adaptive)
        let sizes = try await Simulation.run(seed: seed) { simulation in
            var sizes: [Int] = []
            for pause in [Duration.zero, .seconds(1)] {
                let size = try await SealingWorkers.withWorkers(count: 2) { workers in
                    var size = 0
                    let source = Pieces(bytes: content, sizes: [1 << 16])
                    for try await piece in key.sealing(source, as: Fixture.context, options: options, on: workers) {
                        size += piece.count
                        // In virtual time, in which the workers finish all submitted chunks.
                        if pause > .zero { try await simulation.clock.sleep(for: pause) }
                    }
                    return size
                }
                sizes.append(size)
            }
            return sizes
        }
        #expect(sizes[1] < sizes[0] * 95 / 100, "\(sizes)")
    }

    @Test("Sealing workers are idle only when all chunks are done, not when just the next chunk is done")
    func idleness() async throws {
        try await SealingWorkers.withWorkers(count: 2) { workers in
            let window = ChunkWindow<Int>(workers)
            let tickets = [Ticket<Int>(), Ticket<Int>()]
            for ticket in tickets { window.append(ticket) }
            #expect(!window.isDone)
            tickets[0].finish(.success(0))
            #expect(!window.isDone)
            tickets[1].finish(.success(1))
            #expect(window.isDone)
        }
    }

    @Test("With chunks of 1 MiB the content root is computed in the same work on each chunk")
    func largeChunks() async throws {
        let key = try Fixture.key()
        for content in [[UInt8].text(5_000_000), .text(2 << 20), []] {
            var hasher = ContentRootHasher(key.pageHash)
            hasher.update(content)
            let root = hasher.finalize()
            try await SealingWorkers.withWorkers { workers in
                let source = Pieces(bytes: content, sizes: [1 << 20])
                let seal = key.sealing(source, as: Fixture.context, on: workers) { #expect($0.digests?.root == root) }
                let sealed = try await collect(seal)
                let open = key.opening(Pieces(bytes: sealed, sizes: [65_536]), as: Fixture.context, on: workers)
                #expect(try await collect(open) == content)
            }
        }
    }

    @Test("Each sealing pass starts over with the same salt and sizes and new nonces, and its result opens")
    func passes() async throws {
        let key = try Fixture.key()
        try await SealingWorkers.withWorkers { workers in
            let source = Pieces(bytes: .text(20_000), sizes: [4096])
            let sealing = key.sealing(source, as: Fixture.context, options: Fixture.smallChunks, on: workers)
            var iterator = sealing.makeAsyncIterator()
            _ = try await iterator.next()
            _ = try await iterator.next()
            let first = try await collect(sealing)
            let second = try await collect(sealing)
            #expect(first != second && first.count == second.count)
            #expect(first.prefix(104) == second.prefix(104))
            #expect(Array(first[40..<72]) == sealing.salt)
            for sealed in [first, second] {
                let opening = key.opening(
                    Pieces(bytes: sealed, sizes: [999]),
                    as: Fixture.context,
                    salt: sealing.salt,
                    on: workers
                )
                #expect(try await collect(opening) == source.bytes)
            }
            let other = key.opening(
                Pieces(bytes: first, sizes: [999]),
                as: Fixture.context,
                salt: .noise(32),
                on: workers
            )
            let error = await #expect(throws: CryptographyError.self) { try await collect(other) }
            #expect(error?.code == .tampered)
        }
    }

    @Test("F7, D19: A damaged file gives only authentic chunks in order, and then the error")
    func damage() async throws {
        let key = try Fixture.key()
        let content = [UInt8].text(3 * 4096 + 100)
        let sealed = key.seal(content, as: Fixture.context, options: Fixture.smallChunks)
        var files = sealed.indices.map { Array(sealed.prefix($0)) } + [sealed + [0], sealed + sealed]
        for index in sealed.indices {
            var flipped = sealed
            flipped[index] ^= 0x10
            files.append(flipped)
        }
        try await SealingWorkers.withWorkers(count: 2) { workers in
            for (index, file) in files.enumerated() {
                let inMemory = failure { try key.open(file, as: Fixture.context, upTo: 1 << 20) }
                var given: [UInt8] = []
                let opening = key.opening(
                    Pieces(bytes: file, sizes: [512]),
                    as: Fixture.context,
                    on: workers,
                    onEnd: { _ in Issue.record("a damaged file has no end") }
                )
                let error = await #expect(throws: CryptographyError.self) {
                    for try await chunk in opening { given += chunk }
                }
                #expect(error?.code == inMemory?.code, "case \(index)")
                #expect(content.starts(with: given) && given.count % 4096 == 0, "case \(index)")
            }
        }
    }

    @Test("Sealing reads ahead of the iterating caller only as many chunks as it works on")
    func bounded() async throws {
        let key = try Fixture.key()
        try await SealingWorkers.withWorkers(count: 3) { workers in
            let read = Locked(0)
            let source = Pieces(bytes: .text(100 * 4096), sizes: [4096]) { _ in read.withLock { $0 += 1 } }
            let sealing = key.sealing(source, as: Fixture.context, options: Fixture.smallChunks, on: workers)
            var given = 0
            for try await _ in sealing {
                // The first piece is the header. One chunk is read ahead to know whether it exists.
                #expect(read.withLock { $0 } <= given + 2 * 3 + 1)
                given += 1
            }
            #expect(given == 101)
        }
    }

    @Test("An error of the source of sealing is thrown unchanged, and the pass is over")
    func sourceFails() async throws {
        struct Failure: Error {}
        let key = try Fixture.key()
        let sealed = key.seal(.text(40_960), as: Fixture.context, options: Fixture.smallChunks)
        try await SealingWorkers.withWorkers { workers in
            let failing = Pieces(bytes: sealed, sizes: [100]) { if $0 == 5 { throw Failure() } }
            var iterator = key.opening(failing, as: Fixture.context, on: workers).makeAsyncIterator()
            await #expect(throws: Failure.self) { while try await iterator.next() != nil {} }
            let after = try await iterator.next()
            #expect(after == nil)
            let sealing = key.sealing(failing, as: Fixture.context, options: Fixture.smallChunks, on: workers)
            await #expect(throws: Failure.self) { try await collect(sealing) }
        }
    }

    @Test("Sealing gives the chunks in order, whatever the order of the work on them")
    func seededOrders() async throws {
        let key = try Fixture.key()
        let content = [UInt8].text(9 * 4096 + 17)
        let exploration = try await Simulation.explore(seeds: 0..<300) { simulation in
            try await SealingWorkers.withWorkers(count: 1 + Int(simulation.seed % 4)) { workers in
                let source = Pieces(bytes: content, sizes: [4096, 700]) { _ in await Task.yield() }
                let sealing = key.sealing(source, as: Fixture.context, options: Fixture.smallChunks, on: workers)
                let sealed = try await collect(sealing)
                let opening = key.opening(Pieces(bytes: sealed, sizes: [300]), as: Fixture.context, on: workers)
                try #require(try await collect(opening) == content)
            }
        }
        #expect(exploration.distinctOrders > 200, "\(exploration)")
    }

    @Test("Several files share the workers concurrently")
    func severalFiles() async throws {
        let key = try Fixture.key()
        let exploration = try await Simulation.explore(seeds: 0..<100) { _ in
            try await SealingWorkers.withWorkers(count: 2) { workers in
                try await withThrowingTaskGroup { group in
                    for seed in UInt64(0)..<3 {
                        group.addTask {
                            let content = [UInt8].noise(9000, seed: seed)
                            let source = Pieces(bytes: content, sizes: [4096])
                            let sealed = try await collect(
                                key.sealing(source, as: Fixture.context, options: Fixture.smallChunks, on: workers)
                            )
                            try #require(try key.open(sealed, as: Fixture.context, upTo: 9000) == content)
                        }
                    }
                    try await group.waitForAll()
                }
            }
        }
        #expect(exploration.distinctOrders > 50, "\(exploration)")
    }

    @Test("Sealing that is cancelled at any moment ends at once, or with the whole file if it was done")
    func cancellation() async throws {
        let key = try Fixture.key()
        let content = [UInt8].text(6 * 4096)
        var cancelled = 0
        for step in 0... {
            let point = CancellationPoint(step: step)
            try await Simulation.run(seed: 3, cancellingAt: point) { _ in
                let task = Task {
                    try await SealingWorkers.withWorkers(count: 2) { workers in
                        let source = Pieces(bytes: content, sizes: [4096])
                        let sealing = key.sealing(
                            source,
                            as: Fixture.context,
                            options: Fixture.smallChunks,
                            on: workers
                        )
                        return try await collect(sealing)
                    }
                }
                point.arm { task.cancel() }
                do {
                    let sealed = try await task.value
                    try #require(try key.open(sealed, as: Fixture.context, upTo: 1 << 20) == content)
                } catch is CancellationError {}
                point.disarm()
            }
            guard point.wasReached else { break }
            cancelled += 1
        }
        #expect(cancelled > 10, "\(cancelled) moments")
    }

    @Test("A caller that stops iterating a sealing pass leaves no work that hasn't started")
    func abandonment() async throws {
        // One thread: no submitted work starts before the next suspension.
        try await Simulation.run(seed: 1) { _ in
            try await SealingWorkers.withWorkers(count: 2) { workers in
                let begun = Locked(0)
                do {
                    let window = ChunkWindow<Void>(workers)
                    while window.isOpen {
                        window.append(workers.submit { _ in begun.withLock { $0 += 1 } })
                    }
                }
                try await workers.submit { _ in }.value(of: "one more")
                try #require(begun.withLock { $0 } == 0)
            }
        }
    }

    @Test("Sealing after the workers have ended throws CancellationError, also in the middle of a pass")
    func afterTheEnd() async throws {
        let key = try Fixture.key()
        let content = [UInt8].noise(100_000)
        let (sealing, begun) = try await SealingWorkers.withWorkers { workers in
            let source = Pieces(bytes: content, sizes: [4096])
            let sealing = key.sealing(source, as: Fixture.context, options: Fixture.smallChunks, on: workers)
            var begun = sealing.makeAsyncIterator()
            _ = try await begun.next()
            _ = try await begun.next()
            return (sealing, begun)
        }
        await #expect(throws: CancellationError.self) { _ = try await collect(sealing) }
        var late = begun
        await #expect(throws: CancellationError.self) {
            while try await late.next() != nil {}
        }
    }
}
