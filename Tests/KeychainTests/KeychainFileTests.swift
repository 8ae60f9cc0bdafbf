import Foundation
import OperationsTesting
import SyncCryptography
import TestSupport
import Testing

@testable import Keychain

@Suite("A client's keychain file")
struct KeychainFileTests {
    private static func identifier(_ number: UInt8) -> UUID {
        UUID(uuid: (number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number))
    }

    private static func key(_ account: String, _ group: String = "TEAM.notes") throws -> ItemKey {
        try ItemKey(service: "notes", account: account, accessGroup: group)
    }

    private static func file() throws -> KeychainFile {
        KeychainFile(
            replica: identifier(1),
            publication: identifier(9),
            seen: [identifier(1): 3, identifier(2): 70_000],
            entries: [
                try key("b"): ItemEntry(
                    stamp: Stamp(counter: 2, replica: identifier(1)),
                    secret: SecretBytes("geheim")
                ),
                try key("a"): ItemEntry(stamp: Stamp(counter: 70_000, replica: identifier(2)), secret: nil),
                try key("a", "TEAM.a"): ItemEntry(
                    stamp: Stamp(counter: 3, replica: identifier(1)),
                    secret: SecretBytes("")
                ),
            ]
        )
    }

    /// Returns a file's content with this head and these entries.
    private static func content(
        version: UInt16 = 1,
        seen: [(UUID, UInt64)] = [],
        count: UInt32 = 0,
        _ entries: (inout ByteWriter) -> Void = { _ in }
    ) -> [UInt8] {
        var writer = ByteWriter(capacity: 100)
        writer.append("storesync items\0".utf8)
        writer.append(version)
        writer.append(identifier(1))
        writer.append(identifier(2))
        writer.append(UInt32(seen.count))
        for (replica, counter) in seen {
            writer.append(replica)
            writer.append(counter)
        }
        writer.append(count)
        entries(&writer)
        return writer.bytes
    }

    private static func append(
        _ account: String,
        counter: UInt64 = 1,
        kind: UInt8 = 0,
        to writer: inout ByteWriter
    ) {
        for text in ["group", "service", account] { writer.append(text) }
        writer.append(counter)
        writer.append(identifier(1))
        writer.append(kind)
    }

    private func expectCorrupt(_ content: [UInt8], _ words: String, sourceLocation: SourceLocation = #_sourceLocation)
        async
    {
        await expect(.corrupt, words, sourceLocation: sourceLocation) { _ = try KeychainFile(content) }
    }

    @Test("The files of many clients, each with the maximum number of items, can be in memory at the same time")
    func manyFullFiles() async {
        // Each secret in memory of its own would exceed what Linux allows a process, which ends it.
        await #expect(processExitsWith: .success) {
            let entries = try (0..<KeychainLimits.items).map { number in
                let stamp = Stamp(counter: UInt64(number) + 1, replica: Self.identifier(1))
                return (try Self.key("\(number)"), ItemEntry(stamp: stamp, secret: SecretBytes("\(number)")))
            }
            let file = KeychainFile(
                replica: Self.identifier(1),
                publication: Self.identifier(9),
                seen: [Self.identifier(1): UInt64(entries.count)],
                entries: Dictionary(uniqueKeysWithValues: entries)
            )
            let content = file.content().bytes
            let files = try (0..<5).map { _ in try KeychainFile(content) }
            #expect(files.allSatisfy { $0 == file })
        }
    }

    @Test("A keychain file has a canonical form: content that can be read is written again, byte for byte")
    func roundTrip() throws {
        let file = try Self.file()
        let content = file.content().bytes
        #expect(try KeychainFile(content) == file)
        #expect(try KeychainFile(content).content().bytes == content)
        #expect(file.description == "keychain file with 2 items and 1 tombstones")
        // The layout that the article describes.
        var expected = Self.content(seen: [(Self.identifier(1), 3), (Self.identifier(2), 70_000)], count: 3)
        expected.replaceSubrange(34..<50, with: [9] + [UInt8](repeating: 0, count: 14) + [9])
        expected += [6, 0, 0, 0] + Array("TEAM.a".utf8) + [5, 0, 0, 0] + Array("notes".utf8) + [1, 0, 0, 0, 0x61]
        expected += [3, 0, 0, 0, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 14) + [1, 1, 0, 0, 0, 0]
        expected +=
            [10, 0, 0, 0] + Array("TEAM.notes".utf8) + [5, 0, 0, 0] + Array("notes".utf8) + [1, 0, 0, 0, 0x61]
        expected += [0x70, 0x11, 1, 0, 0, 0, 0, 0, 2] + [UInt8](repeating: 0, count: 14) + [2, 0]
        expected +=
            [10, 0, 0, 0] + Array("TEAM.notes".utf8) + [5, 0, 0, 0] + Array("notes".utf8) + [1, 0, 0, 0, 0x62]
        expected += [2, 0, 0, 0, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 14) + [1, 1, 6, 0, 0, 0]
        expected += Array("geheim".utf8)
        #expect(content == expected)
    }

    @Test("A keychain file that is cut off at any length, or extended, is corrupt")
    func truncations() async throws {
        let content = try Self.file().content().bytes
        for count in content.indices { await expectCorrupt(Array(content.prefix(count)), "") }
        await expectCorrupt(content + [0], "after its end")
    }

    @Test("A keychain file with counts, orders or texts that no client writes is corrupt, and takes no memory")
    func hostile() async throws {
        await expect(.unsupportedFormat, "version 2") { _ = try KeychainFile(Self.content(version: 2)) }
        await expectCorrupt(Array("storesync sealed".utf8), "doesn't begin")
        await expectCorrupt(Self.content(count: .max), "4294967295 items")
        await expectCorrupt(Self.content(count: 60_000), "too early")
        await expectCorrupt(Self.content(seen: [(Self.identifier(2), 1), (Self.identifier(1), 1)]), "disorder")
        await expectCorrupt(Self.content(seen: [(Self.identifier(1), 1), (Self.identifier(1), 1)]), "disorder")
        for counter in [0, ReplicaClock.end, .max] {
            await expectCorrupt(Self.content(seen: [(Self.identifier(1), counter)]), "out of range")
            await expectCorrupt(Self.content(count: 1) { Self.append("a", counter: counter, to: &$0) }, "out of range")
        }
        for accounts in [["b", "a"], ["a", "a"]] {
            let content = Self.content(count: 2) { writer in
                for account in accounts { Self.append(account, to: &writer) }
            }
            await expectCorrupt(content, "disorder")
        }
        await expectCorrupt(Self.content(count: 1) { Self.append("a", kind: 2, to: &$0) }, "neither")
        await expectCorrupt(
            Self.content(count: 1) { Self.append(String(repeating: "a", count: 1_025), to: &$0) },
            "1025"
        )
        await expect(.invalidItem) { _ = try KeychainFile(Self.content(count: 1) { Self.append("\0", to: &$0) }) }
        let secret = Self.content(count: 1) {
            Self.append("a", kind: 1, to: &$0)
            $0.append(UInt32.max)
        }
        await expectCorrupt(secret, "bytes of a secret")
        let many = Self.content(count: 4_097) { writer in
            for index in 0..<4_097 {
                Self.append(String(format: "%05d", index), kind: 1, to: &writer)
                writer.append(UInt32(0))
            }
        }
        await expectCorrupt(many, "too many items")
    }

    @Test("A keychain file with random damage is refused with a typed error, or a client could have written it")
    func mutations() throws {
        let whole = try Self.file().content().bytes
        var read = 0
        let seeds = TestDepth.seeds(quick: 1_000, ci: 5_000, deep: 250_000)
        for seed in seeds {
            var generator = SplitMix64(seed: seed)
            var content = whole
            for _ in 0...Int.random(in: 0..<3, using: &generator) { content.mutate(using: &generator) }
            do {
                #expect(try KeychainFile(content).content().bytes == content)
                read += 1
            } catch {
                #expect([.corrupt, .invalidItem, .unsupportedFormat].contains(error.code), "\(error)")
            }
        }
        #expect(read > seeds.count / 50 && read < seeds.count * 4 / 5, "\(read)")
    }

    @Test("A keychain file opens only for its client and application, and only with the application's key")
    func sealing() throws {
        let file = try Self.file()
        let key = EpochKey(master: MasterKey(), epoch: UUID())
        let sealed = file.sealed(with: key, application: "notes", client: "laptop")
        #expect(try KeychainFile(opening: sealed, with: key, application: "notes", client: "laptop") == file)
        for (application, client) in [("notes", "phone"), ("tasks", "laptop"), ("laptop", "notes")] {
            #expect(throws: CryptographyError.self) {
                try KeychainFile(opening: sealed, with: key, application: application, client: client)
            }
        }
        #expect(throws: CryptographyError.self) {
            let other = EpochKey(master: MasterKey(), epoch: key.epoch)
            return try KeychainFile(opening: sealed, with: other, application: "notes", client: "laptop")
        }
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 4
            #expect(throws: CryptographyError.self, "byte \(index)") {
                try KeychainFile(opening: changed, with: key, application: "notes", client: "laptop")
            }
        }
    }
}
