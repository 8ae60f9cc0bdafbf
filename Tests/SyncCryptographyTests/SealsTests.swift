import ContentDigests
import Testing
import ThreadSupport

@testable import SyncCryptography

@Suite("The digest of a file's seals", .timeLimit(.minutes(60)))
struct SealsTests {
    /// A content of four chunks, the last of which is short, and other contents of the same size.
    private static let contents = (0..<3).map { [UInt8].noise(3 * 4096 + 100, seed: $0) }

    /// Seals a content for the same context and with the same salt as all others, as the attempts of one upload do.
    private func attempt(_ content: [UInt8], on workers: SealingWorkers) async throws -> (file: [UInt8], seals: [UInt8])
    {
        var options = Fixture.smallRawChunks
        options.salt = [UInt8](repeating: 1, count: 32)
        let summary = Locked<ContentSummary?>(nil)
        let sealing = try Fixture.key().sealing(
            Pieces(bytes: content, sizes: [4096]),
            as: Fixture.context,
            options: options,
            on: workers
        ) { pass in summary.withLock { $0 = pass } }
        let file = try await collect(sealing)
        return (file, try #require(summary.withLock { $0 }).seals)
    }

    private func opened(_ file: [UInt8], on workers: SealingWorkers) async throws -> (content: [UInt8], seals: [UInt8])
    {
        let summary = Locked<ContentSummary?>(nil)
        let opening = try Fixture.key().opening(Pieces(bytes: file, sizes: [999]), as: Fixture.context, on: workers) {
            pass in summary.withLock { $0 = pass }
        }
        let content = try await collect(opening)
        return (content, try #require(summary.withLock { $0 }).seals)
    }

    /// Returns the header of a file and its records.
    private func split(_ file: [UInt8]) throws -> (start: [UInt8], records: [[UInt8]]) {
        let codec = ChunkCodec(sealing: Fixture.context, with: try Fixture.key(), options: Fixture.smallRawChunks)
        let offsets = try Fixture.chunkOffsets(of: file, with: codec)
        let records = zip(offsets, offsets.dropFirst()).map { Array(file[$0..<$1]) }
        return (Array(file.prefix(SealedHeader.byteCount)), records)
    }

    @Test("The digest of seals is the same when a file is sealed and opened, and another for every attempt")
    func attempts() async throws {
        try await SealingWorkers.withWorkers { workers in
            var all: Set<[UInt8]> = []
            for content in Self.contents + Self.contents {
                let (file, seals) = try await attempt(content, on: workers)
                let found = try await opened(file, on: workers)
                #expect(found.content == content && found.seals == seals)
                all.insert(seals)
                // As the article on formats says.
                let records = try split(file).records
                let message = records.reduce(Array("storesync seals\0".utf8)) { $0 + $1[4..<28] + $1.suffix(16) }
                #expect(Blake2b.digest(of: message) == seals)
            }
            #expect(all.count == 2 * Self.contents.count)
        }
    }

    @Test("D19: Chunks of several attempts open together, and their digest is that of no attempt")
    func mixed() async throws {
        try await SealingWorkers.withWorkers { workers in
            // The third attempt has the content of the first.
            let contents = [Self.contents[0], Self.contents[1], Self.contents[0]]
            var attempts: [(file: [UInt8], seals: [UInt8])] = []
            for content in contents { attempts.append(try await attempt(content, on: workers)) }
            let parts = try attempts.map { try split($0.file) }
            #expect(parts.allSatisfy { $0.start == parts[0].start && $0.records.count == 4 })
            var mixtures = 0
            for number in 0..<81 {
                var rest = number
                let sources = (0..<4).map { _ in
                    defer { rest /= 3 }
                    return rest % 3
                }
                let file = sources.enumerated().reduce(parts[0].start) { $0 + parts[$1.element].records[$1.offset] }
                let found = try await opened(file, on: workers)
                let expected = sources.enumerated().flatMap { index, source in
                    contents[source].dropFirst(index * 4096).prefix(4096)
                }
                #expect(found.content == expected, "every chunk is authentic")
                let isMixed = Set(sources).count > 1
                #expect(attempts.map(\.seals).contains(found.seals) == !isMixed, "\(sources)")
                mixtures += isMixed ? 1 : 0
            }
            #expect(mixtures == 78)
        }
    }

    @Test("D19: A flipped bit anywhere in a record, and dropped, repeated or exchanged records never give a digest")
    func changed() async throws {
        try await SealingWorkers.withWorkers { workers in
            let content = [UInt8].noise(40)
            let (small, _) = try await attempt(content, on: workers)
            for bit in SealedHeader.byteCount * 8..<small.count * 8 {
                var changed = small
                changed[bit / 8] ^= 1 << UInt8(bit % 8)
                await #expect(throws: CryptographyError.self) { try await opened(changed, on: workers) }
            }
            let (file, _) = try await attempt(Self.contents[0], on: workers)
            let (start, records) = try split(file)
            for order in [
                [0, 1, 2], [0, 1, 3], [1, 2, 3], [0, 0, 1, 2, 3], [0, 1, 1, 2, 3], [0, 1, 2, 3, 3], [1, 0, 2, 3],
                [0, 2, 1, 3], [0, 1, 3, 2], [3], [],
            ] {
                let changed = order.reduce(start) { $0 + records[$1] }
                await #expect(throws: CryptographyError.self) { try await opened(changed, on: workers) }
            }
        }
    }

    @Test("The digest of seals is right after passes that resume: it includes the seals of the chunks before")
    func resumed() async throws {
        let content = [UInt8].noise(3 << 20) + [UInt8].text(1000)
        let key = try Fixture.key()
        try await SealingWorkers.withWorkers { workers in
            var options = SealingOptions(compression: .none)
            options.salt = [UInt8](repeating: 1, count: 32)
            var (file, notes, ends): ([UInt8], [NotedChunk], [ContentSummary]) = ([], [], [])
            for chunks in 0..<3 {
                let source = Pieces(bytes: Array(content.dropFirst(chunks << 20)), sizes: [1 << 20])
                let (noted, summary) = (Locked<[NotedChunk]>([]), Locked<ContentSummary?>(nil))
                var sealing = key.sealing(source, as: Fixture.context, options: options, on: workers) { pass in
                    summary.withLock { $0 = pass }
                }
                let whole = Pieces(bytes: content, sizes: [1 << 20])
                sealing.prefix = try await NotedPrefix.of(notes[...], in: whole, key.pageHash, on: workers)
                sealing.onChunk = { _, chunk in noted.withLock { $0.append(chunk) } }
                let rest = try await collect(sealing)
                ends.append(try #require(summary.withLock { $0 }))
                let found = try await opened(file + rest, on: workers)
                #expect(found.content == content && found.seals == ends.last?.seals)
                // The next pass resumes after one more chunk of this one.
                notes.append(try #require(noted.withLock { $0.first }))
                let kept = (chunks == 0 ? SealedHeader.byteCount : 0) + notes[chunks].storedBytes
                file += rest.prefix(kept)
            }
            #expect(Set(ends.map(\.seals)).count == 3)
            #expect(Set(ends.map(\.digests?.root)).count == 1 && Set(ends.map(\.sealedBytes)).count == 1)
        }
    }
}
