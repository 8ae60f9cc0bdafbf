import ByteCoding
import OperationsTesting
import SyncCryptography
import TestSupport
import Testing

@testable import StoreSync

/// Writes, reads and applies deltas in memory: a simple model of what operations do with files.
enum DeltaModel {
    /// Returns the delta that turns `base` into `bytes`.
    static func delta(of bytes: [UInt8], to base: [UInt8], blockSize: Int) -> [UInt8] {
        let header = DeltaHeader(
            blockSize: Int64(blockSize),
            baseSize: Int64(base.count),
            size: Int64(bytes.count)
        )
        var runs: [Range<Int64>] = []
        for block in 0..<(bytes.count + blockSize - 1) / blockSize {
            func content(_ bytes: [UInt8]) -> ArraySlice<UInt8> { bytes.dropFirst(block * blockSize).prefix(blockSize) }
            guard content(bytes) != content(base) else { continue }
            let first = runs.last?.upperBound == Int64(block) ? runs.removeLast().lowerBound : Int64(block)
            runs.append(first..<Int64(block) + 1)
        }
        var writer = DeltaWriter(header, runs: runs)
        var delta: [UInt8] = []
        while let piece = writer.next(reading: { Array(bytes.dropFirst(Int($0)).prefix($1)) }) { delta += piece }
        #expect(Int64(delta.count) == header.byteCount(of: runs))
        return delta
    }

    /// Applies a delta to `base`, reading it in pieces of a given size.
    static func apply(_ delta: [UInt8], to base: [UInt8], size: Int, pieces: Int) throws -> [UInt8] {
        var reader = DeltaReader(baseSize: Int64(base.count), size: Int64(size))
        var bytes = Array(base.prefix(size)) + Array(repeating: 0, count: max(0, size - base.count))
        var rest = delta[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(pieces))
            rest = rest.dropFirst(piece.count)
            try reader.read(piece) { offset, content in
                let place = Int(offset)..<Int(offset) + content.count
                try #require(bytes.indices.upperBound >= place.upperBound, "it wrote beyond the file")
                bytes.replaceSubrange(place, with: content)
            }
        }
        try reader.finish()
        return bytes
    }

    static func noise(_ count: Int, _ generator: inout SplitMix64) -> [UInt8] {
        .noise(count, using: &generator)
    }

    /// Returns a file after random edits: changed bytes, new content, or an end that was cut off or added.
    static func edited(_ bytes: [UInt8], _ generator: inout SplitMix64) -> [UInt8] {
        var edited = bytes
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: edited.removeLast(Int.random(in: 0...edited.count, using: &generator))
        case 1: edited += noise(Int.random(in: 0...3000, using: &generator), &generator)
        case 2: edited = noise(Int.random(in: 0...5000, using: &generator), &generator)
        default: break
        }
        for _ in 0..<Int.random(in: 0...6, using: &generator) where !edited.isEmpty {
            edited[Int.random(in: edited.indices, using: &generator)] &+= 1
        }
        return edited
    }
}

@Suite("The contents of a delta")
struct DeltaTests {
    @Test("A delta that is applied to its base recreates the file, whatever pieces it is read in")
    func roundTrip() throws {
        var generator = SplitMix64(seed: 11)
        var smaller = 0
        for _ in 0..<400 {
            let base = DeltaModel.noise(Int.random(in: 0...9000, using: &generator), &generator)
            let bytes = DeltaModel.edited(base, &generator)
            let delta = DeltaModel.delta(of: bytes, to: base, blockSize: 512)
            smaller += delta.count < bytes.count ? 1 : 0
            let pieces = [1, 7, 512, 100_000].randomElement(using: &generator) ?? 1
            #expect(try DeltaModel.apply(delta, to: base, size: bytes.count, pieces: pieces) == bytes)
        }
        #expect(smaller > 100)
    }

    @Test("A chain of deltas recreates each file in turn")
    func chain() throws {
        var generator = SplitMix64(seed: 12)
        var (bytes, made): ([UInt8], [UInt8]) = ([], [])
        for _ in 0..<200 {
            let next = DeltaModel.edited(bytes, &generator)
            let delta = DeltaModel.delta(of: next, to: bytes, blockSize: 512)
            made = try DeltaModel.apply(delta, to: made, size: next.count, pieces: 1000)
            #expect(made == next)
            bytes = next
        }
    }

    @Test("A delta of an unchanged file holds no block, and a delta of one changed block holds only that block")
    func sizes() {
        let base = [UInt8](repeating: 3, count: 100 * 4096)
        #expect(DeltaModel.delta(of: base, to: base, blockSize: 4096).count == 40 + 16)
        var bytes = base
        bytes[50 * 4096] = 4
        #expect(DeltaModel.delta(of: bytes, to: base, blockSize: 4096).count == 40 + 16 + 4096 + 16)
    }

    @Test("A large run is written in pieces of bounded size")
    func pieces() {
        let size = 9 << 20
        var writer = DeltaWriter(DeltaHeader(blockSize: 4096, baseSize: 0, size: Int64(size)), runs: [0..<9 * 256])
        var largest = 0
        while let piece = writer.next(reading: { _, count in [UInt8](repeating: 1, count: count) }) {
            largest = max(largest, piece.count)
        }
        #expect(largest <= (2 << 20) + 56)
    }

    // MARK: Malformed deltas

    @Test("A delta that is cut off anywhere, or has an extra byte, is malformed")
    func cut() {
        var generator = SplitMix64(seed: 13)
        let base = DeltaModel.noise(3000, &generator)
        var bytes = base
        for place in [0, 1030, 2999] { bytes[place] &+= 1 }
        let delta = DeltaModel.delta(of: bytes, to: base, blockSize: 512)
        for count in 0..<delta.count {
            #expect(throws: DeltaReader.Malformed.self, "\(count)") {
                try DeltaModel.apply(Array(delta.prefix(count)), to: base, size: bytes.count, pieces: 100)
            }
        }
        #expect(throws: DeltaReader.Malformed.self) {
            try DeltaModel.apply(delta + [0], to: base, size: bytes.count, pieces: 100)
        }
    }

    @Test("A delta with changed bytes is refused, or writes only within the file")
    func changed() throws {
        var generator = SplitMix64(seed: 14)
        var refused = 0
        for _ in 0..<3000 {
            let base = DeltaModel.noise(2000, &generator)
            let bytes = DeltaModel.edited(base, &generator)
            var delta = DeltaModel.delta(of: bytes, to: base, blockSize: 512)
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let isHead = Bool.random(using: &generator)
                delta[Int.random(in: 0..<(isHead ? min(56, delta.count) : delta.count), using: &generator)] =
                    UInt8(truncatingIfNeeded: generator.next())
            }
            do {
                _ = try DeltaModel.apply(delta, to: base, size: bytes.count, pieces: 333)
            } catch is DeltaReader.Malformed {
                refused += 1
            }
        }
        #expect(refused > 1000)
    }

    /// A delta from a base of 1,000 bytes to a file of 2,000 bytes, with these runs and their content.
    private func forged(_ runs: [(Int64, Int64)], size: Int64 = 2000) -> [UInt8] {
        let header = DeltaHeader(blockSize: 512, baseSize: 1000, size: size)
        return header.bytes
            + runs.flatMap { first, count in
                let isPlausible = (0..<4).contains(first) && (1...4).contains(count)
                let content = isPlausible ? min(Int(count) * 512, 2000 - Int(first) * 512) : 0
                return first.littleEndianBytes + count.littleEndianBytes + [UInt8](repeating: 1, count: content)
            }
    }

    @Test("Runs that are unordered, touch, exceed the file, or leave out bytes that the base lacks are malformed")
    func disorder() throws {
        func apply(_ runs: [(Int64, Int64)]) throws {
            _ = try DeltaModel.apply(forged(runs), to: Array(repeating: 0, count: 1000), size: 2000, pieces: 100)
        }
        try apply([(1, 3), (4, 0)])
        try apply([(0, 4), (4, 0)])
        for runs: [(Int64, Int64)] in [
            [(4, 0)], [(2, 2), (4, 0)], [(1, 2), (4, 0)], [(1, 3), (3, 0)], [(1, 3), (5, 0)], [(1, 4)], [(1, .max)],
            [(.max, .max)], [(-1, 2)], [(1, -1)], [(0, 1), (1, 3), (4, 0)], [(1, 3), (1, 3), (4, 0)], [(1, 3)], [],
            [(1, 3), (4, 0), (4, 0)], [(.min, .min)], [(1, 0), (1, 3), (4, 0)],
        ] {
            #expect(throws: DeltaReader.Malformed.self, "\(runs)") { try apply(runs) }
        }
        #expect(throws: DeltaReader.Malformed.self) {
            try DeltaModel.apply(forged([(1, 3), (4, 0)], size: 2001), to: [], size: 2000, pieces: 100)
        }
    }
}
