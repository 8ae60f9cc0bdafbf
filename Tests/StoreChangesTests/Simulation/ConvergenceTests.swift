import OperationsTesting
import StoreChanges
import TestSupport
import Testing

@Suite("Devices that edit at once", .timeLimit(.minutes(60)))
struct ConvergenceTests {
    /// One history: devices that edit, capture, exchange sets in any order, and write.
    struct History {
        var random: SplitMix64
        var devices: [SimulatedDevice]
        var time: UInt64 = 0
        var log: [String] = []
        /// What an update of the app adds to the schema; each device has it at another time.
        var migration: String?
        private var migrated: Set<Int> = []

        /// Whether another device joins some time.
        private var awaitsJoiner: Bool
        /// Whether users restore entries of the conflict log.
        private let restores: Bool
        /// How many entries were restored.
        private(set) var restoredCount = 0

        init(seed: UInt64, migrates: Bool = false, joins: Bool = false, restores: Bool = false) throws {
            awaitsJoiner = joins
            self.restores = restores
            random = SplitMix64(seed: seed)
            let schema = SimulatedSchemas.all[Int(seed % UInt64(SimulatedSchemas.all.count))]
            if migrates { migration = SimulatedSchemas.additions.randomElement(using: &random) }
            devices = try ["A", "B", "C"].prefix(Int.random(in: 2...3, using: &random)).map {
                try SimulatedDevice($0, schemaSQL: schema)
            }
            // A device makes itself known before it captures.
            for device in devices { try device.publishHead() }
            for device in devices { try readHeads(device, isLate: false) }
        }

        mutating func run() throws {
            for _ in 0..<Int.random(in: 10...80, using: &random) {
                let index = Int.random(in: 0..<devices.count, using: &random)
                let device = devices[index]
                if migration != nil, random.chance(5) { try migrate(index) }
                if awaitsJoiner, random.chance(5) { try join(device) }
                if restores, random.chance(15) { try restore(device) }
                switch Int.random(in: 0..<20, using: &random) {
                case 0..<15:
                    let statement = RandomEdits(device.schema).statement(using: &random)
                    if try device.edit(statement) { log.append("\(device.client): \(statement)") }
                case 15: try capture(device)
                case 16: try receive(device)
                default: try synchronize(device, editsMeanwhile: true)
                }
            }
            if awaitsJoiner { try join(devices[0]) }
            for index in devices.indices { try migrate(index) }
            // Twice, so that everything has arrived everywhere.
            for _ in 0..<2 {
                for device in devices { try synchronize(device) }
            }
            for device in devices {
                try device.receive([])
            }
        }

        /// Lets a device join with a checkpoint of another one, which may lack what others have.
        private mutating func join(_ maker: SimulatedDevice) throws {
            awaitsJoiner = false
            try capture(maker)
            let joiner = try SimulatedDevice("J", joiningFrom: maker)
            let (content, digests) = (try maker.content(), try maker.digests())
            #expect(try joiner.content() == content)
            #expect(try joiner.digests() == digests)
            #expect(try joiner.conflicts() == maker.conflicts())
            #expect(try joiner.stable() == maker.stable())
            #expect(try joiner.capture(at: time) == nil, "the store is as the checkpoint has it")
            try joiner.publishHead()
            for device in devices {
                device.readHeads[joiner.client] = 0
                try device.remember(joiner.heads)
            }
            devices.append(joiner)
            log.append("J joins with a checkpoint of \(maker.client)")
            try synchronize(joiner)
        }

        /// Lets every device know what every other one has, and forget the rest.
        mutating func settle() throws {
            for device in devices { try device.publishHead() }
            for device in devices {
                try readHeads(device, isLate: false)
                try device.trim()
            }
        }

        /// Reads heads of other devices, maybe older ones than there are.
        private mutating func readHeads(_ device: SimulatedDevice, isLate: Bool) throws {
            for other in devices where other.client != device.client {
                let first = device.readHeads[other.client] ?? 0
                let last = other.heads.count - 1
                let index = isLate ? Int.random(in: first...last, using: &random) : last
                device.readHeads[other.client] = index
                try device.remember([other.heads[index]])
            }
        }

        private mutating func migrate(_ index: Int) throws {
            guard let migration, migrated.insert(index).inserted else { return }
            let table = devices[index].schema.tables[0].name
            try devices[index].migrate(migration.replacing("{}", with: "\"\(table)\""))
            log.append("\(devices[index].client) migrates")
        }

        private mutating func capture(_ device: SimulatedDevice) throws {
            time += 1
            // Clocks may be wrong by a lot.
            let clock = random.chance(20) ? UInt64.random(in: 0...100, using: &random) : time
            if let set = try device.capture(at: clock) {
                log.append("\(device.client) captures \(set.header.id.sequence)")
            }
        }

        /// Restores an entry, which other devices may restore too.
        private mutating func restore(_ device: SimulatedDevice) throws {
            let entries = try device.loggedConflicts().filter { $0.conflict.hasLoss }
            guard let entry = entries.randomElement(using: &random) else { return }
            time += 1
            let isRestored = try device.restore(entry.number, at: time)
            if isRestored { restoredCount += 1 }
            log.append("\(device.client) \(isRestored ? "restores" : "can't restore") \(entry.conflict)")
        }

        private mutating func receive(_ device: SimulatedDevice) throws {
            for other in devices where other.client != device.client {
                let arrived = device.arrived[other.client] ?? 0
                let count = Int.random(in: arrived...other.sets.count, using: &random)
                try device.integrate(other.sets[arrived..<count].shuffled(using: &random))
                device.arrived[other.client] = count
                log.append("\(device.client) receives \(arrived)..<\(count) of \(other.client)")
            }
        }

        mutating func synchronize(_ device: SimulatedDevice, editsMeanwhile: Bool = false) throws {
            for other in devices where other.client != device.client {
                let arrived = device.arrived[other.client] ?? 0
                try device.integrate(other.sets[arrived...].shuffled(using: &random))
                device.arrived[other.client] = other.sets.count
            }
            try capture(device)
            let last: SimulatedDevice.WriteStep =
                random.chance(15) ? [.prepare, .write].randomElement(using: &random) ?? .write : .finish
            let statement =
                editsMeanwhile && random.chance(25) ? RandomEdits(device.schema).statement(using: &random) : nil
            let edit = statement.map { statement in { _ = try device.edit(statement) } }
            let written = try device.write(upTo: last, meanwhile: edit)
            log.append("\(device.client) synchronizes up to \(last), \(written), meanwhile: \(statement ?? "")")
            if random.chance(60) { try device.publishHead() }
            guard random.chance(60) else { return }
            try readHeads(device, isLate: true)
            try device.trim()
            if let stable = try device.stable() { log.append("\(device.client) trims up to \(stable.position)") }
        }
    }

    @Test(
        "Stores that have exchanged everything are equal, keep their constraints, and nothing is captured again",
        arguments: TestDepth.seeds(quick: 16, deep: 100_000)
    )
    func convergence(seed: UInt64) throws {
        guard var history = Self.history(try History(seed: seed)) else { return }
        let expected = try Self.expectMerged(history)
        let log = history.log.joined(separator: "\n")
        let digest = try history.devices[0].digest(of: expected)
        for device in history.devices {
            #expect(try device.digests().present == digest, "\(device.client)\n\(log)")
        }
        try history.settle()
        for device in history.devices {
            let content = try device.content()
            let inserters = content.rows.values.flatMap(\.inserters)
            let isForgotten = content.tombs.isEmpty && content.aliases.isEmpty && inserters.isEmpty
            #expect(isForgotten, "what all devices have seen is superfluous\n\(device.client)\n\(log)")
            #expect(try device.digests().stable == digest, "\(device.client)\n\(log)")
        }
    }

    @Test(
        "A device that joins with a checkpoint of another one merges as if it had been there from the start",
        arguments: TestDepth.seeds(quick: 16, deep: 100_000)
    )
    func joiners(seed: UInt64) throws {
        guard let history = Self.history(try History(seed: seed, joins: true)) else { return }
        try Self.expectMerged(history)
    }

    @Test(
        "Stores in which users restore what conflicts lost are equal, and nothing is captured again",
        arguments: TestDepth.seeds(quick: 16, deep: 100_000)
    )
    func restoring(seed: UInt64) throws {
        guard let history = Self.history(try History(seed: seed, restores: true)) else { return }
        // What restoring replaces is known only where it was restored.
        try Self.expectMerged(history, exceptConflictsOf: .replacedByRestoring)
    }

    /// Runs a history; `nil` if it fails, which is recorded with what happened until then.
    private static func history(_ history: History) -> History? {
        var history = history
        do {
            try history.run()
            return history
        } catch {
            Issue.record("\(error)\n\(history.log.joined(separator: "\n"))")
            return nil
        }
    }

    /// Checks every device after a history: it has what the oracle folds from all sets, its store keeps the constraints, and it
    /// captures nothing.
    ///
    /// Returns the oracle's state. The oracle doesn't know the conflicts of `rule`.
    @discardableResult
    private static func expectMerged(
        _ history: History,
        exceptConflictsOf rule: Conflict.Rule? = nil
    ) throws -> StateContent {
        let log = history.log.joined(separator: "\n")
        let sets = history.devices.flatMap(\.sets)
        let expected = try Oracle.evaluating(history.devices[0].schema).fold(sets, over: StateContent())
        for device in history.devices {
            // What replicas forgot changes nothing: the oracle forgets nothing.
            let stable = try device.stable()
            let content = try device.content().trimmed(stable)
            #expect(content == expected.content.trimmed(stable), "\(device.client)\n\(log)")
            let conflicts = try device.conflicts().filter { $0.rule != rule }
            #expect(counts(conflicts) == counts(expected.conflicts), "\(device.client)\n\(log)")
            #expect(try device.publishHead().voids.isEmpty, "\(device.client)\n\(log)")
            let violations = try device.violations()
            #expect(violations.isEmpty, "\(device.client)\n\(log)")
            let echo = try device.capture(at: 1_000)
            #expect(echo == nil, "\(device.client)\n\(log)")
        }
        return expected.content
    }

    @Test("Random histories restore rows that other devices inserted, under their names")
    func restoringCoverage() throws {
        var (restoredCount, hasMet) = (0, false)
        for seed in UInt64(0)..<88 where restoredCount < 10 || !hasMet {
            var history = try History(seed: seed, restores: true)
            try history.run()
            restoredCount += history.restoredCount
            var inserts: [RowReference: Set<ClientID>] = [:]
            for set in history.devices.flatMap(\.sets) {
                for change in set.changes {
                    guard case .insert = change.edit, case .numbered = change.row else { continue }
                    inserts[RowReference(change.table, change.row), default: []].insert(set.header.id.client)
                }
            }
            hasMet = hasMet || inserts.values.contains { $0.count > 1 }
        }
        #expect(restoredCount >= 10 && hasMet)
    }

    @Test("The deleted row comes back to which another one refers by unique values, not the row that had them before")
    func formerKey() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE code (id TEXT PRIMARY KEY NOT NULL, name TEXT UNIQUE);
            CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (name));
            """
        )
        try devices.laptop.edit("INSERT INTO code VALUES ('a', 'x')")
        try devices.exchange()
        try devices.laptop.edit("UPDATE code SET id = 'b'")
        try devices.exchange()
        try devices.phone.edit("DELETE FROM code")
        try devices.laptop.edit("INSERT INTO shop VALUES (1, 'x')")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try device.rows("SELECT * FROM code") == [#""b"|"x""#])
            #expect(try device.rows("SELECT code FROM shop") == [#""x""#])
            #expect(try device.conflicts().map(\.rule) == [.broughtBack])
        }
    }

    @Test(
        "Devices whose apps are updated at different times are equal in the end",
        arguments: TestDepth.seeds(quick: 10, deep: 20_000)
    )
    func migrations(seed: UInt64) throws {
        guard let history = Self.history(try History(seed: seed, migrates: true)) else { return }
        let log = "\(history.migration ?? "")\n\(history.log.joined(separator: "\n"))"
        let first = try history.devices[0].content()
        let rows = first.rows.mapValues(\.cells)
        let digest = try history.devices[0].digest(of: first)
        for device in history.devices {
            let content = try device.content()
            #expect(
                content.rows.mapValues(\.cells) == rows && content.counts == first.counts,
                "\(device.client)\n\(log)"
            )
            #expect(try device.digests().present == digest, "\(device.client)\n\(log)")
            #expect(try !device.needsNewerSchema(), "\(device.client)\n\(log)")
            let violations = try device.violations()
            #expect(violations.isEmpty, "\(device.client)\n\(log)")
            let echo = try device.capture(at: 1_000)
            #expect(echo == nil, "\(device.client)\n\(log)")
        }
    }

    /// How often each conflict occurs.
    private static func counts(_ conflicts: [Conflict]) -> [Conflict: Int] {
        Dictionary(conflicts.map { ($0, 1) }, uniquingKeysWith: +)
    }

    @Test("Random histories meet the rules that need no mark")
    func coverage() throws {
        var missing: Set<Conflict.Rule> = [
            .overwritten, .deletedEdited, .deleteRefused, .editOfDeleted, .merged, .broughtBack, .deletedWithParent,
            .countBelowZero,
        ]
        for seed in UInt64(0)..<88 where !missing.isEmpty {
            var history = try History(seed: seed)
            try history.run()
            missing.subtract(try history.devices[0].conflicts().map(\.rule))
        }
        #expect(missing == [])
    }
}
