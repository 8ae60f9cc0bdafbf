import OperationsTesting
import TestSupport
import Testing

@testable import ContentDigests

@Suite("Files that are read and digested on all cores", .timeLimit(.minutes(60)))
struct FileDigesterTests {
    private static let keyed = [UInt8](0..<32).withUnsafeBytes { PageHash(key: $0) }
    private static let block = ContentRoot.blockSize

    private func noise(_ count: Int) -> [UInt8] {
        var generator = SplitMix64(seed: UInt64(count))
        return .noise(count, using: &generator)
    }

    private func expected(_ bytes: [UInt8], blockSize: Int?, _ pages: PageHash = keyed) -> FileDigests {
        var digester = FileDigester(blockSize: blockSize, pages)
        for start in stride(from: 0, to: bytes.count, by: Self.block) {
            let chunk = Array(bytes[start..<min(start + Self.block, bytes.count)])
            digester.append(ChunkDigests(of: chunk, chunkSize: Self.block, by: pages))
        }
        return digester.finalize()
    }

    private static func read(_ bytes: [UInt8], at offset: Int64, upTo count: Int) -> [UInt8] {
        Array(bytes.dropFirst(Int(offset)).prefix(count))
    }

    @Test("A file has the digests of its content", arguments: [0, 1, block, block + 1, 5_000_000], [nil, 8192])
    func digests(count: Int, blockSize: Int?) async throws {
        let bytes = noise(count)
        let found = try await FileDigester(blockSize: blockSize, Self.keyed)
            .digests(ofBytes: Int64(count), on: nil) { Self.read(bytes, at: $0, upTo: $1) }
        #expect(found == expected(bytes, blockSize: blockSize))
        var hasher = ContentRootHasher(Self.keyed)
        hasher.update(bytes)
        #expect(found.root == hasher.finalize() && found.byteCount == count)
    }

    @Test("Blocks count in their order, in whatever order they are finished", arguments: [block * 4, block * 4 - 5000])
    func order(count: Int) throws {
        let bytes = noise(count)
        var generator = SplitMix64(seed: UInt64(count))
        for _ in 0..<24 {
            let digester = FileDigester(blockSize: 4096, Self.keyed)
            var reading = BlockReading(byteCount: Int64(count), digester: digester)
            var blocks: [Range<Int64>] = []
            while let block = reading.take() { blocks.append(block) }
            for block in blocks.shuffled(using: &generator) {
                let chunk = Self.read(bytes, at: block.lowerBound, upTo: block.count)
                reading.finish(block, ChunkDigests(of: chunk, chunkSize: Self.block, by: Self.keyed))
            }
            #expect(reading.digester.finalize() == expected(bytes, blockSize: 4096))
        }
    }

    @Test("A file that became shorter has the digests of what is left", arguments: [0, 5000, block, block + 5000])
    func shorter(count: Int) async throws {
        let bytes = noise(count)
        let found = try await FileDigester(blockSize: 4096, Self.keyed)
            .digests(ofBytes: Int64(Self.block * 5), on: nil) { Self.read(bytes, at: $0, upTo: $1) }
        #expect(found == expected(bytes, blockSize: 4096))
    }

    @Test("The error of a read is thrown", arguments: 0..<4)
    func failure(index: Int) async {
        struct Failure: Error {}
        await #expect(throws: Failure.self) {
            _ = try await FileDigester(Self.keyed).digests(ofBytes: Int64(Self.block * 4), on: nil) { offset, count in
                if offset == Int64(index * Self.block) { throw Failure() }
                return [UInt8](repeating: 0, count: count)
            }
        }
    }

    @Test("If a read fails, the other threads stop")
    func failureOfOne() async {
        struct Failure: Error {}
        let zeros = [UInt8](repeating: 0, count: Self.block)
        await #expect(throws: Failure.self) {
            // The others would never end.
            _ = try await FileDigester(Self.keyed).digests(ofBytes: 1 << 60, on: nil) { offset, _ in
                if offset == 0 { throw Failure() }
                return zeros
            }
        }
    }

    @Test("A cancelled task reads no more blocks")
    func cancellation() async {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await FileDigester(Self.keyed).digests(ofBytes: Int64(Self.block * 4), on: nil) { _, _ in
                Issue.record("a block is read")
                return []
            }
        }
        await #expect(throws: CancellationError.self) { _ = try await task.value }
    }
}
