import Foundation
import Operations
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync
@testable import SyncCryptography

@Suite("Attacks on a sealed application: a sample, or all in deep tests", .timeLimit(.minutes(60)))
struct ExhaustiveAttackTests {
    private typealias Kind = AttackedApplication.Kind
    private typealias Outcome = AttackedApplication.Outcome

    /// One attack on the remote.
    private struct Case {
        var what: String
        /// The attacked file.
        var name: String
        var changes: [String: Data?]
    }

    /// Runs every case and prints the outcomes, or runs a sample of about `most` cases.
    ///
    /// Every attack must be noticed, except on the kinds of notes, whose content isn't read.
    @discardableResult
    private func attack(
        _ application: AttackedApplication,
        _ cases: [Case],
        most: Int
    ) async throws -> [Kind: Set<Outcome>] {
        var seen: [Kind: [Outcome: Int]] = [:]
        let step = TestDepth.isDeep ? 1 : max(1, cases.count / most)
        var count = 0
        for index in stride(from: 0, to: cases.count, by: step) {
            let attack = cases[index]
            guard let kind = Kind(attack.name) else { continue }
            let outcome = try await application.outcome(of: attack.what, attack.changes)
            let isNote = kind == .deletedClient || kind == .deletedDocument
            #expect(outcome.isNoticed || isNote, "\(attack.what)")
            seen[kind, default: [:]][outcome, default: 0] += 1
            count += 1
        }
        #expect(count >= min(most, cases.count))
        // After all attacks, everything is restored.
        let last = try await application.outcome(of: "nothing", [:])
        #expect(last.verify.isEmpty && last.pull == Outcome.unharmed)
        if TestDepth.isDeep {
            print("\(count) cases")
            for (kind, outcomes) in seen.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                for (outcome, count) in outcomes.sorted(by: { $0.value > $1.value }) {
                    print("  \(kind): \(count) × \(outcome)")
                }
            }
        }
        return seen.mapValues { Set($0.keys) }
    }

    @Test("F4, D19: A file that is cut at any length is noticed")
    func cut() async throws {
        let application = try await AttackedApplication()
        let cases = application.sorted.flatMap { name, bytes in
            bytes.indices.map { Case(what: "\(name) cut to \($0)", name: name, changes: [name: bytes.prefix($0)]) }
        }
        #expect(cases.count > 5_000)
        try await attack(application, cases, most: TestDepth.choose(quick: 40, deep: 100))
    }

    @Test("F4, D19: Exchanging any two of 18 files that differ is noticed, in 153 pairs")
    func exchanged() async throws {
        let application = try await AttackedApplication()
        let files = application.sorted
        let cases = files.indices.flatMap { index in
            files[(index + 1)...].filter { $0.value != files[index].value }.map { [one = files[index]] other in
                Case(
                    what: "\(one.key) exchanged for \(other.key)",
                    name: one.key,
                    changes: [one.key: other.value, other.key: one.value]
                )
            }
        }
        #expect(files.count == 18 && cases.count == 153)
        try await attack(application, cases, most: TestDepth.choose(quick: 25, deep: 60))
    }

    /// The outcomes of a pull, by a device that has seen the newest files, while a file is missing or a former version.
    private static let pulled: [Kind: Set<String>] = [
        .registration: ["deregistered", "encryptionDowngraded"],
        // The content of the salt's copy has no effect, but its existence has.
        .salt: [Outcome.unharmed, "encryptionDowngraded"],
        .test: ["rolledBack", "tampered", "encryptionDowngraded"],
        // Only a list of devices and verify read these files.
        .deviceInfo: [Outcome.unharmed],
        .documentInfo: ["rolledBack", "orphan", "documentMissing"],
        // The document's info names the key, and the device remembers it.
        .integrityKey: [Outcome.unharmed],
        // A pull reads the files of the newest generation. Only verify reads the files of the previous one.
        .manifest: ["rolledBack", Outcome.unharmed],
        .store: ["rolledBack", Outcome.unharmed],
        .appliedSets: ["tampered", "orphan", "rolledBack", Outcome.unharmed],
        .deletedClient: [Outcome.unharmed],
        .deletedDocument: [Outcome.unharmed],
    ]

    @Test(
        "F4, D19: A device that has seen the newest files notices a former or missing version of each, in 88 cases"
    )
    func putBack() async throws {
        let application = try await AttackedApplication()
        var cases: [Case] = []
        for (name, bytes) in application.sorted {
            cases.append(Case(what: "\(name) removed", name: name, changes: [name: nil]))
            for (age, former) in application.former.enumerated() {
                for (place, old) in former where Kind(place) == Kind(name) && old != bytes {
                    cases.append(Case(what: "\(name) as \(place) was (\(age))", name: name, changes: [name: old]))
                }
            }
        }
        #expect(cases.count == 88)
        let seen = try await attack(application, cases, most: cases.count)
        for kind in Kind.allCases { #expect(Set(seen[kind, default: []].map(\.pull)) == Self.pulled[kind], "\(kind)") }
    }

    @Test("F4, D19: Dropping, repeating or exchanging chunks of a sealed file is noticed")
    func chunks() async throws {
        let application = try await AttackedApplication(padding: 3 << 20)
        var cases: [Case] = []
        var most = 0
        for (name, bytes) in application.sorted where EpochKey.isSealed(Array(bytes.prefix(16))) {
            let (header, chunks) = try Self.split(bytes)
            most = max(most, chunks.count)
            for order in Self.orders(chunks.count) {
                let changed = order.reduce(header) { $0 + chunks[$1] }
                cases.append(Case(what: "\(name) with the chunks \(order)", name: name, changes: [name: changed]))
            }
        }
        #expect(most == 4)
        try await attack(application, cases, most: 30)
    }

    @Test("F4, D19: verify notices a flipped bit in any byte of any file, and a pull is never deceived by it")
    func flipped() async throws {
        let application = try await AttackedApplication()
        var cases = 0
        let interval = TestDepth.choose(quick: 50, deep: 1)
        for (name, bytes) in application.sorted {
            guard let kind = Kind(name), kind != .deletedClient, kind != .deletedDocument else { continue }
            for offset in stride(from: cases % interval, to: bytes.count, by: interval) {
                var changed = bytes
                changed[offset] ^= 1 << UInt8(offset % 8)
                cases += 1
                let pulls = TestDepth.isDeep ? offset.isMultiple(of: 5) : cases.isMultiple(of: 5)
                let what = "\(name) with another byte \(offset)"
                let outcome = try await application.outcome(of: what, [name: changed], pulls: pulls)
                #expect(!outcome.verify.isEmpty, "\(what)")
            }
        }
        #expect(cases > 6_000 / interval)
        if TestDepth.isDeep { print("\(cases) cases") }
    }

    /// A sealed file's header and its chunks.
    private static func split(_ sealed: Data) throws -> (header: Data, chunks: [Data]) {
        let bytes = Array(sealed)
        let header = try SealedHeader.read(Array(bytes.prefix(SealedHeader.byteCount))).header
        var (offset, chunks) = (SealedHeader.byteCount, [Data]())
        while offset < bytes.count {
            let record = try ChunkRecord(bytes[offset...].prefix(ChunkRecord.wordBytes), in: header)
            chunks.append(Data(bytes[offset..<(offset + record.byteCount)]))
            offset += record.byteCount
        }
        return (Data(bytes.prefix(SealedHeader.byteCount)), chunks)
    }

    /// Every way of dropping one chunk, repeating one after any other, and exchanging two.
    private static func orders(_ count: Int) -> [[Int]] {
        let whole = Array(0..<count)
        var orders: Set<[Int]> = [[]]
        for one in whole {
            orders.insert(whole.filter { $0 != one })
            for other in 0...count {
                var repeated = whole
                repeated.insert(one, at: other)
                orders.insert(repeated)
                guard other < count, other != one else { continue }
                var exchanged = whole
                exchanged.swapAt(one, other)
                orders.insert(exchanged)
            }
        }
        // A set, since some of these are equal if there is only one chunk. Sorted, to have a fixed order.
        return orders.subtracting([whole]).sorted { $0.lexicographicallyPrecedes($1) }
    }
}
