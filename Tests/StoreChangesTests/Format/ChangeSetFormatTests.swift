import OperationsTesting
import StoreChanges
import TestSupport
import Testing

@Suite("The format of change sets")
struct ChangeSetFormatTests {
    @Test(
        "A set is read as it was written, and has one form",
        arguments: TestDepth.seeds(quick: 300, ci: 2_000, deep: 100_000)
    )
    func roundTrip(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let set = random.changeSet()
        let bytes = set.encoded
        let read = try SyncChangeSet(decoding: bytes)
        #expect(read.header == set.header)
        #expect(Set(read.changes) == Set(set.changes))
        #expect(read.encoded == bytes)
    }

    @Test("A set that is cut off is refused, with the position", arguments: 0..<20 as Range<UInt64>)
    func truncated(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let bytes = random.changeSet().encoded
        for count in 0..<bytes.count {
            let error = #expect(throws: StoreChangesError.self) {
                try SyncChangeSet(decoding: Array(bytes.prefix(count)))
            }
            #expect(error?.code == .corrupt)
            #expect(error?.message.contains("at byte ") == true)
        }
        #expect(throws: StoreChangesError.self) { try SyncChangeSet(decoding: bytes + [0]) }
    }

    @Test(
        "A set with any byte changed is refused, or is another set that has this form",
        arguments: 0..<20 as Range<UInt64>
    )
    func flipped(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let set = random.changeSet()
        let bytes = set.encoded
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= UInt8.random(in: 1...255, using: &random)
            guard let read = try? SyncChangeSet(decoding: changed) else { continue }
            #expect(read != set)
            #expect(read.encoded == changed)
        }
    }

    @Test(
        "Noise after the beginning is refused or read, but never traps",
        arguments: TestDepth.seeds(quick: 500, ci: 5_000, deep: 1_000_000)
    )
    func noise(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let header = SyncChangeSet(random.header(), []).encoded.dropLast()
        let noise = (0..<Int.random(in: 1...60, using: &random)).map { _ in UInt8.random(in: 0...6, using: &random) }
        _ = try? SyncChangeSet(decoding: header + noise)
    }

    @Test("A length that isn't there takes no memory")
    func hugeLength() throws {
        var random = SplitMix64(seed: 3)
        let header = Array(SyncChangeSet(random.header(), []).encoded.dropLast())
        // A table "t" with no columns, and a deleted row whose key is a blob of 2 GiB.
        let bytes: [UInt8] = header + [1, 1, 116, 0, 3, 2, 1, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0x07]
        let error = #expect(throws: StoreChangesError.self) { try SyncChangeSet(decoding: bytes) }
        #expect(error?.message.contains("cut off") == true)
    }

    @Test("A later version of the format is named, with what to do")
    func laterVersion() throws {
        var random = SplitMix64(seed: 4)
        var bytes = random.changeSet().encoded
        bytes[4] = 2
        let error = #expect(throws: StoreChangesError.self) { try SyncChangeSet(decoding: bytes) }
        #expect(error?.code == .unsupportedFormat)
        #expect(error?.message.contains("Update this program") == true)
    }

    @Test("Names are ordered by their bytes")
    func order() {
        let names: [RowName] = [
            .numbered(client: ClientID(rawValue: "A"), number: 1),
            .numbered(client: ClientID(rawValue: "B"), number: 0),
            .key([.value(.integer(0))]),
            .key([.value(.text("a"))]),
            .key([.value(.text("a")), .value(.null)]),
        ]
        for (index, name) in names.enumerated() {
            for (otherIndex, other) in names.enumerated() { #expect((name < other) == (index < otherIndex)) }
        }
    }
}
