import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync
@testable import SyncCryptography

@Suite("A sealed application, attacked at some places, or with STORESYNC_EXHAUSTIVE at all", .timeLimit(.minutes(60)))
struct ExhaustiveAttackTests {
    private typealias Kind = AttackedApplication.Kind
    private typealias Outcome = AttackedApplication.Outcome

    /// What is done to the remote in one case.
    private struct Case {
        var what: String
        /// The file that it's about.
        var name: String
        var changes: [String: Data?]
    }

    /// Set to run every case, which takes minutes; else some of them are run.
    private static let isExhaustive = ProcessInfo.processInfo.environment["STORESYNC_EXHAUSTIVE"] != nil

    /// Runs every case, or about as many as `most`, and prints what was said where it runs every one.
    ///
    /// Anything but the kinds of notes must be noticed: of those nobody reads the content.
    @discardableResult
    private func attack(
        _ application: AttackedApplication,
        _ cases: [Case],
        most: Int
    ) async throws -> [Kind: Set<Outcome>] {
        var seen: [Kind: [Outcome: Int]] = [:]
        let step = Self.isExhaustive ? 1 : max(1, cases.count / most)
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
        // Whatever was done, everything is as it was.
        let last = try await application.outcome(of: "nothing", [:])
        #expect(last.verify.isEmpty && last.pull == Outcome.unharmed)
        if Self.isExhaustive {
            print("\(count) cases")
            for (kind, outcomes) in seen.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                for (outcome, count) in outcomes.sorted(by: { $0.value > $1.value }) {
                    print("  \(kind): \(count) × \(outcome)")
                }
            }
        }
        return seen.mapValues { Set($0.keys) }
    }

    @Test("F4, D19: each file cut at every length")
    func cut() async throws {
        let application = try await AttackedApplication()
        let cases = application.sorted.flatMap { name, bytes in
            bytes.indices.map { Case(what: "\(name) cut to \($0)", name: name, changes: [name: bytes.prefix($0)]) }
        }
        #expect(cases.count > 5_000)
        try await attack(application, cases, most: 100)
    }

    @Test("F4, D19: any two of 18 files that differ exchanged for each other, in 153 pairs")
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
        try await attack(application, cases, most: 60)
    }

    /// What a device that has seen the newest says if it pulls while a former version of a file is there, or none.
    private static let pulled: [Kind: Set<String>] = [
        .registration: ["deregistered", "encryptionDowngraded"],
        // The copy of the salt decides nothing, but that it's there does.
        .salt: [Outcome.unharmed, "encryptionDowngraded"],
        .test: ["rolledBack", "tampered", "encryptionDowngraded"],
        // They are read by who lists devices, and by verify.
        .deviceInfo: [Outcome.unharmed],
        .documentInfo: ["rolledBack", "orphan", "documentMissing"],
        // It's named by the info, and remembered.
        .integrityKey: [Outcome.unharmed],
        // The newest generation's; those of the one before are read by verify alone.
        .manifest: ["rolledBack", Outcome.unharmed],
        .store: ["rolledBack", Outcome.unharmed],
        .appliedSets: ["tampered", "orphan", "rolledBack", Outcome.unharmed],
        .deletedClient: [Outcome.unharmed],
        .deletedDocument: [Outcome.unharmed],
    ]

    @Test(
        "F4, D19: each file's former versions put back one at a time, or none, before who has seen the newer: 88 cases"
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

    @Test("F4, D19: chunks of each sealed file dropped, repeated, and exchanged")
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

    @Test("F4, D19: each byte of each file flipped, and pulled at every fifth")
    func flipped() async throws {
        let application = try await AttackedApplication()
        var cases = 0
        for (name, bytes) in application.sorted {
            guard let kind = Kind(name), kind != .deletedClient, kind != .deletedDocument else { continue }
            for offset in stride(from: cases % 20, to: bytes.count, by: Self.isExhaustive ? 1 : 20) {
                var changed = bytes
                changed[offset] ^= 1 << UInt8(offset % 8)
                cases += 1
                let pulls = Self.isExhaustive ? offset.isMultiple(of: 5) : cases.isMultiple(of: 5)
                let what = "\(name) with another byte \(offset)"
                let outcome = try await application.outcome(of: what, [name: changed], pulls: pulls)
                #expect(!outcome.verify.isEmpty, "\(what)")
            }
        }
        #expect(cases > (Self.isExhaustive ? 6_000 : 300))
        if Self.isExhaustive { print("\(cases) cases") }
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
        // Of a file with one chunk that is the same twice: in a fixed order.
        return orders.subtracting([whole]).sorted { $0.lexicographicallyPrecedes($1) }
    }
}
