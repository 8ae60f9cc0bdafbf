import ContentDigests
import Foundation
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("The memory of the store that was pushed last")
struct PushedBlocksTests {
    private let fixture: StateFixture
    private let file: PushedBlocks.File

    init() throws {
        fixture = try StateFixture()
        file = try fixture.open().pushedBlocks(of: StateFixture.diary)
    }

    private func blocks(_ count: Int = 30_000) async throws -> PushedBlocks {
        let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 / 4096) }
        let summary = try await FileDigester(
            blockSize: 4096,
            EpochKey(master: MasterKey(), epoch: UUID()).pageHash
        )
        .digests(ofBytes: Int64(count), on: nil) { Array(content.dropFirst(Int($0)).prefix($1)) }
        let digests = try #require(summary.blocks)
        return PushedBlocks(
            PushedBlocks.Subject(
                epoch: UUID(),
                document: StateFixture.diary,
                client: "phone",
                uploads: [StateFixture.upload(1), StateFixture.upload(2)],
                contentRoot: String(repeating: "ab", count: 32),
                byteCount: Int64(count),
                blockSize: 4096
            ),
            digests
        )
    }

    @Test(
        "The memory of a pushed store is read as it was written, and only the last memory is kept",
        arguments: [0, 1, 30_000]
    )
    func roundTrip(count: Int) async throws {
        #expect(file.read() == nil)
        file.write(try await blocks(7000))
        let written = try await blocks(count)
        file.write(written)
        #expect(file.read() == written)
        let directory = file.url.deletingLastPathComponent().path
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).count == 1)
        let mode = try FileManager.default.attributesOfItem(atPath: file.url.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let other = try fixture.open().pushedBlocks(of: StateFixture.recipes)
        #expect(other.read() == nil)
    }

    @Test("A memory of a pushed store that is damaged, cut off, too large or no file counts as missing")
    func damage() async throws {
        let bytes = try PushedBlocks.File.encode(await blocks()).flatMap(\.self)
        #expect(PushedBlocks.File.decode(bytes) != nil)
        for offset in bytes.indices {
            var changed = bytes
            changed[offset] ^= 1 << UInt8(offset % 8)
            #expect(PushedBlocks.File.decode(changed) == nil, "\(offset)")
            #expect(PushedBlocks.File.decode(Array(bytes.prefix(offset))) == nil, "\(offset)")
        }
        file.write(try await blocks())
        let handle = try FileHandle(forWritingTo: file.url)
        try handle.truncate(atOffset: 1 << 40)
        try handle.close()
        #expect(file.read() == nil)
        try FileManager.default.removeItem(at: file.url)
        try FileManager.default.createDirectory(at: file.url, withIntermediateDirectories: true)
        #expect(file.read() == nil)
    }

    @Test("A memory of a pushed store that can't be written causes no failure, and leaves nothing behind")
    func unwritable() async throws {
        file.write(try await blocks())
        try FileManager.default.removeItem(at: file.url)
        // A directory that isn't empty is in the way.
        try FileManager.default.createDirectory(at: file.url.appending(path: "x"), withIntermediateDirectories: true)
        file.write(try await blocks())
        #expect(file.read() == nil)
        let directory = file.url.deletingLastPathComponent().path
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).count == 1)
    }
}
