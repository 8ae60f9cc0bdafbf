import Foundation
import Testing

@testable import SyncCryptography

@Suite("A sealed file")
struct SealedFileTests {
    private static let sizes = [0, 1, 63, 4095, 4096, 4097, 8192, 12_288, 12_289, 50_000]

    @Test(
        "A sealed file opens with the content that was sealed, for any size, chunk size and compression",
        arguments: sizes
    )
    func roundTrip(count: Int) throws {
        let key = try Fixture.key()
        let contents: [[UInt8]] = [.noise(count), .text(count), .init(repeating: 0, count: count)]
        for content in contents {
            for compression in [SealingOptions.Compression.none, .zstd, .zstd(level: 19)] {
                for chunk in [4096, 1 << 20] {
                    let options = SealingOptions(chunkSize: chunk, compression: compression)
                    let sealed = key.seal(content, as: Fixture.context, options: options)
                    #expect(try key.open(sealed, as: Fixture.context, upTo: count) == content)
                }
            }
        }
    }

    @Test("A sealed file is different each time, and reveals nothing of its content")
    func freshness() throws {
        let key = try Fixture.key()
        let content = Array(String(repeating: "CANARY", count: 100).utf8)
        let sealed = (0..<2).map { _ in key.seal(content, as: Fixture.context, options: Fixture.smallRawChunks) }
        #expect(sealed[0] != sealed[1])
        for sealed in sealed { #expect(!String(decoding: sealed, as: UTF8.self).contains("CANARY")) }
    }

    @Test("A chunk that compression doesn't make smaller is stored as it is")
    func incompressible() throws {
        let key = try Fixture.key()
        let content: [UInt8] = .noise(4096) + .text(4096) + .noise(100, seed: 2)
        let codec = ChunkCodec(sealing: Fixture.context, with: key, options: Fixture.smallChunks)
        let workspace = ChunkWorkspace()
        let records = try [0..<4096, 4096..<8192, 8192..<8292].enumerated().map { index, range in
            let bytes = codec.seal(content[range], index: UInt64(index), isLast: index == 2, in: workspace)
            return try ChunkRecord(bytes.prefix(4), in: codec.header)
        }
        #expect(records.map(\.isCompressed) == [false, true, false])
        #expect(records[0].bodyByteCount == 4096 && records[1].bodyByteCount < 1000)
        #expect(records.map(\.isLast) == [false, false, true])
    }

    @Test("D19: A sealed file doesn't open in another context, such as at another path")
    func contexts() throws {
        let key = try Fixture.key()
        let sealed = key.seal([1, 2, 3], as: Fixture.context)
        for context in Fixture.otherContexts {
            let error = failure { try key.open(sealed, as: context, upTo: 100) }
            #expect(error?.code == .tampered, "\(context)")
        }
        #expect(Set((Fixture.otherContexts + [Fixture.context]).map(\.encoded)).count == 13)
    }

    @Test("A sealed file doesn't open with another key of the same epoch")
    func otherKey() throws {
        let sealed = try Fixture.key(7).seal([1, 2, 3], as: Fixture.context)
        let other = try Fixture.key(8)
        let error = failure { try other.open(sealed, as: Fixture.context, upTo: 9) }
        #expect(error?.code == .tampered)
    }

    @Test("A sealed file of another epoch has an error of its own: it isn't tampered with")
    func epochs() throws {
        let sealed = EpochKey(master: MasterKey(), epoch: Fixture.formerEpoch).seal([1], as: Fixture.context)
        let key = try Fixture.key()
        #expect(failure { try key.open(sealed, as: Fixture.context, upTo: 9) }?.code == .otherEpoch)
    }

    @Test("A sealed file that holds more than expected is refused before all of it is decompressed")
    func limit() throws {
        let key = try Fixture.key()
        let bomb = key.seal([UInt8](repeating: 0, count: 16 << 20), as: Fixture.context)
        #expect(bomb.count < 20_000)
        #expect(failure { try key.open(bomb, as: Fixture.context, upTo: 1 << 20) }?.code == .tooLarge)
        let small = key.seal([1, 2, 3], as: Fixture.context)
        #expect(failure { try key.open(small, as: Fixture.context, upTo: 2) }?.code == .tooLarge)
        #expect(try key.open(small, as: Fixture.context, upTo: 3) == [1, 2, 3])
    }

    @Test("A chunk that decompresses to too much, too little or not at all is refused, though its writer has the key")
    func wrongWriters() throws {
        let key = try Fixture.key()
        let codec = ChunkCodec(sealing: Fixture.context, with: key, options: Fixture.smallChunks)
        let workspace = ChunkWorkspace()
        func open(compressed body: [UInt8], isLast: Bool) -> CryptographyError? {
            let record = ChunkRecord(bodyByteCount: body.count, isCompressed: true, isLast: isLast)
            let bytes = codec.sealBody(body, record, index: 1)
            return failure { try codec.open(bytes[...], record, index: 1, in: workspace) }
        }
        func compressed(_ count: Int) throws -> [UInt8] {
            try [UInt8](repeating: 1, count: count).withUnsafeBytes {
                Array(try #require(workspace.compress($0, level: 1)))
            }
        }
        #expect(open(compressed: try compressed(4096), isLast: false) == nil)
        #expect(open(compressed: try compressed(4097), isLast: false)?.code == .tampered)
        #expect(open(compressed: try compressed(64 << 20), isLast: true)?.code == .tampered)
        #expect(open(compressed: try compressed(4095), isLast: false)?.code == .tampered)
        #expect(open(compressed: try compressed(4095), isLast: true) == nil)
        #expect(open(compressed: .noise(100), isLast: true)?.code == .tampered)
        // An empty frame of zstd: an empty last chunk after other chunks.
        #expect(open(compressed: bytes(hex: "28b52ffd2000010000"), isLast: true)?.code == .tampered)
    }

    @Test("Sealing with an invalid chunk size traps")
    func chunkSizes() async {
        await #expect(processExitsWith: .failure) { _ = SealingOptions(chunkSize: 2048) }
        await #expect(processExitsWith: .failure) { _ = SealingOptions(chunkSize: 5000) }
        await #expect(processExitsWith: .failure) { _ = SealingOptions(chunkSize: 2 << 20) }
        await #expect(processExitsWith: .failure) { _ = SealingOptions(chunkSize: 0) }
        #expect(SealingOptions().chunkSize == 1 << 20 && SealingOptions().compression == .zstd(level: 1))
    }
}
