import ByteCoding
import Testing

@testable import SyncCryptography

/// D19: after any change, a sealed file opens with its original content or not at all.
@Suite("A sealed file that an attacker changed", .timeLimit(.minutes(60)))
struct SealedFileAttackTests {
    /// A file, the key and the offsets of its chunks.
    private struct Target {
        let key: EpochKey
        let content: [UInt8]
        let sealed: [UInt8]
        let offsets: [Int]

        var chunks: [ArraySlice<UInt8>] { zip(offsets, offsets.dropFirst()).map { sealed[$0..<$1] } }
        var start: ArraySlice<UInt8> { sealed.prefix(SealedHeader.byteCount) }

        init(_ content: [UInt8], _ options: SealingOptions) throws {
            key = try Fixture.key()
            self.content = content
            sealed = key.seal(content, as: Fixture.context, options: options)
            let codec = try ChunkCodec(
                opening: Array(sealed.prefix(SealedHeader.byteCount)),
                as: Fixture.context,
                with: key
            )
            offsets = try Fixture.chunkOffsets(of: sealed, with: codec)
        }

        func open(_ bytes: [UInt8]) throws -> [UInt8] {
            try key.open(bytes, as: Fixture.context, upTo: 1 << 20)
        }

        func code(_ bytes: [UInt8]) -> CryptographyError.Code? {
            failure { try open(bytes) }?.code
        }
    }

    private static func targets() throws -> [Target] {
        [
            try Target(.text(3 * 4096 + 100), Fixture.smallChunks),
            try Target(.text(2 * 4096), Fixture.smallChunks),
            try Target([], Fixture.smallChunks),
            try Target([42], Fixture.smallRawChunks),
        ]
    }

    @Test("D19: A sealed file with flipped bits in any byte is refused, with the error code of the changed field")
    func flips() throws {
        var cases = 0
        var targets = try Self.targets()
        targets.append(try Target(.noise(4096 + 500), Fixture.smallRawChunks))
        for target in targets {
            for index in target.sealed.indices {
                for mask: UInt8 in target.sealed.count < 1000 ? [1, 2, 4, 8, 16, 32, 64, 128, 255] : [1, 0x80] {
                    var bytes = target.sealed
                    bytes[index] ^= mask
                    let allowed: [CryptographyError.Code] =
                        switch index {
                        case 0..<20: [.unsupportedFormat]
                        case 20..<24: [.tampered, .unsupportedFormat]
                        case 24..<40: [.otherEpoch]
                        case 40..<104: [.tampered]
                        // A changed length can make a chunk longer than the file.
                        case _ where target.offsets.contains { (0..<4).contains(index - $0) }: [.tampered, .truncated]
                        default: [.tampered]
                        }
                    let code = target.code(bytes)
                    #expect(
                        code.map(allowed.contains) == true,
                        "byte \(index) ^ \(mask): \(code?.description ?? "opened")"
                    )
                    cases += 1
                }
            }
        }
        #expect(cases > 15_000, "\(cases) cases")
    }

    @Test("D19: A sealed file that is cut off at any length is truncated")
    func truncations() throws {
        var cases = 0
        for target in try Self.targets() {
            for count in 0..<target.sealed.count {
                #expect(target.code(Array(target.sealed.prefix(count))) == .truncated)
                cases += 1
            }
        }
        #expect(cases > 1000, "\(cases) cases")
    }

    @Test("D19: A sealed file with anything appended, also a chunk or the whole file, is refused")
    func extensions() throws {
        for target in try Self.targets() {
            let extras = target.chunks.map(Array.init) + [[0], .noise(200), target.sealed]
            for extra in extras { #expect(target.code(target.sealed + extra) == .tampered) }
        }
    }

    @Test("D19: A sealed file opens only with all its chunks in the right order")
    func arrangements() throws {
        let target = try Target(.text(3 * 4096 + 100), Fixture.smallChunks)
        let chunks = target.chunks
        #expect(chunks.count == 4)
        var cases = 0
        // All sequences of up to five of the four chunks.
        for length in 0...5 {
            for number in 0..<(0..<length).reduce(1, { product, _ in product * 4 }) {
                let order = (0..<length).map { position in (0..<position).reduce(number) { rest, _ in rest / 4 } % 4 }
                let code = target.code(Array(target.start) + order.flatMap { chunks[$0] })
                if order == [0, 1, 2, 3] {
                    #expect(code == nil)
                } else {
                    #expect(code == .tampered || code == .truncated, "\(order)")
                }
                cases += 1
            }
        }
        #expect(cases == 1365)
    }

    @Test("D19: A sealed file with a chunk or the header of another file of equal content and key is refused")
    func mixtures() throws {
        let first = try Target(.text(3 * 4096 + 100), Fixture.smallChunks)
        let second = try Target(.text(3 * 4096 + 100), Fixture.smallChunks)
        for index in 0..<4 {
            var chunks = first.chunks
            chunks[index] = second.chunks[index]
            #expect(first.code(Array(first.start) + chunks.flatMap { $0 }) == .tampered)
        }
        #expect(first.code(Array(second.start) + first.chunks.flatMap { $0 }) == .tampered)
        #expect(first.code(Array(second.start) + second.chunks.flatMap { $0 }) == nil)
    }

    @Test("D19: A sealed file with an earlier chunk marked as the last, or none, is refused")
    func lastFlags() throws {
        for target in try Self.targets() {
            for (index, offset) in target.offsets.dropLast().enumerated() {
                var bytes = Array(target.sealed.prefix(target.offsets[index + 1]))
                bytes[offset + 3] ^= 0x80
                let code = target.code(bytes)
                #expect(code == .tampered || code == .truncated)
            }
        }
    }

    @Test("A sealed file's impossible lengths are refused before anything is read or allocated for them")
    func hostileLengths() throws {
        let target = try Target(.text(3 * 4096), Fixture.smallChunks)
        let header = try SealedHeader.read(Array(target.start)).header
        var accepted = 0
        for length in Array(0...5000) + [1 << 20, (1 << 24) - 1] {
            for flags: UInt32 in [0, 1 << 30, 1 << 31, 3 << 30, 1 << 24, 1 << 29] {
                let word = (UInt32(length) | flags).littleEndianBytes
                guard let record = try? ChunkRecord(word[...], in: header) else { continue }
                #expect(record.bodyByteCount <= 4096 && record.word == word)
                accepted += 1
            }
        }
        // Accepted: whole and raw; compressed and smaller; last and raw; last and compressed.
        #expect(accepted == 1 + 4095 + 4097 + 4095)
    }

    @Test("Noise in place of a sealed file is refused, with or without a real beginning")
    func noise() throws {
        let target = try Target(.text(3 * 4096), Fixture.smallChunks)
        for seed in UInt64(0)..<500 {
            let noise = [UInt8].noise(Int(seed), seed: seed)
            #expect(target.code(noise) != nil)
            #expect(target.code(Array(target.sealed.prefix(Int(seed) % 104)) + noise) != nil)
            #expect(target.code(Array(target.start) + noise) != nil)
        }
    }
}
