import OperationsTesting
import StoreChanges
import TestSupport
import Testing

@Suite("Sets that don't count", .timeLimit(.minutes(60)))
struct VoidSetTests {
    /// Why sets of a history don't count.
    enum Cause: CaseIterable {
        /// A device is copied, with its identity.
        case copy
        /// A device captures although no other device knows of it.
        case unknown
        /// A device is removed, and comes back; others may have restored its rows by then.
        case removal
        /// A device is copied, and both are removed; they may come back at once.
        case removedCopies
    }

    /// One history: devices that edit, read a storage late, and trim.
    struct History {
        let cause: Cause
        var random: SplitMix64
        var devices: [SimulatedDevice]
        let storage = SimulatedStorage()
        var time: UInt64 = 0
        var clients = 0
        var log: [String] = []

        init(_ cause: Cause, seed: UInt64) throws {
            self.cause = cause
            random = SplitMix64(seed: seed)
            let schema = SimulatedSchemas.all[Int(seed % UInt64(SimulatedSchemas.all.count))]
            devices = try ["A", "B", "C"].map { try SimulatedDevice($0, schemaSQL: schema) }
            // The last device of a history about unknown devices doesn't make itself known.
            let known = cause == .unknown ? devices.dropLast() : devices[...]
            for device in known { try storage.publish(device, withHead: true) }
            for device in devices { try storage.readAll(device, using: &random) }
        }

        mutating func run() throws {
            let steps = Int.random(in: 10...50, using: &random)
            let accident = Int.random(in: 0..<steps, using: &random)
            for step in 0..<steps {
                if step == accident { try accidentHappens() }
                let device = devices[Int.random(in: devices.indices, using: &random)]
                if cause == .removal, random.chance(10) { try restore(device) }
                if random.chance(65) {
                    let statement = RandomEdits(device.schema).statement(using: &random)
                    if try device.edit(statement) { log.append("\(device.client): \(statement)") }
                } else {
                    // Sometimes without knowing what others do: else copies would continue each other's sets.
                    if random.chance(cause == .unknown ? 25 : 60) { try storage.read(device, lateBy: &random) }
                    try synchronize(device, publishes: random.chance(80))
                }
            }
            for _ in 0..<5 {
                for device in devices {
                    try storage.readAll(device, using: &random)
                    try synchronize(device)
                }
            }
            for device in devices {
                try storage.readAll(device, using: &random)
                try device.write()
            }
        }

        private mutating func accidentHappens() throws {
            switch cause {
            case .unknown: return
            case .copy: try copy(devices[Int.random(in: devices.indices, using: &random)])
            case .removal, .removedCopies:
                // A device that removes another one is current.
                try storage.readAll(devices[0], using: &random)
                try synchronize(devices[0])
                let removed = devices[Int.random(in: 1..<devices.count, using: &random)]
                let last = try devices[0].publishHead().seen[removed.client]?.sequence ?? 0
                if cause == .removedCopies { try copy(removed) }
                storage.remove(removed.client, after: last)
                log.append("\(removed.client) is removed after \(last)")
            }
        }

        private mutating func copy(_ original: SimulatedDevice) throws {
            let copy = try SimulatedDevice(copying: original)
            storage.copy(copy, from: original)
            devices.append(copy)
            log.append("\(original.client) is copied")
        }

        /// Restores what a device's conflict log has of a removed client.
        private mutating func restore(_ device: SimulatedDevice) throws {
            let lost = try device.loggedConflicts().filter {
                $0.conflict.rule == .clientRemoved && $0.conflict.hasLoss
            }
            guard let entry = lost.randomElement(using: &random), try !device.hasLostIdentity() else { return }
            time += 1
            do {
                try device.captureVoidSetsAgain(at: time)
                if try device.restore(entry.number, at: time) {
                    log.append("\(device.client) restores \(entry.conflict)")
                }
            } catch let error as MissingSets {
                log.append("\(device.client) waits for sets of \(error.clients.map(\.rawValue).sorted())")
            }
        }

        private mutating func synchronize(_ device: SimulatedDevice, publishes: Bool = true) throws {
            if try device.hasLostIdentity() {
                clients += 1
                log.append("\(device.client) becomes N\(clients)")
                try device.become("N\(clients)")
                try device.adopt()
                try storage.publish(device, withHead: true)
                // Devices that come back at once don't see each other.
                if cause != .removedCopies { try storage.readAll(device, using: &random) }
            }
            time += 1
            do {
                let again = try device.captureVoidSetsAgain(at: time)
                if !again.isEmpty { log.append("\(device.client) captures again \(again.map(\.header.id))") }
                if let set = try device.capture(at: time) { log.append("\(device.client) captures \(set.header.id)") }
                try device.write()
            } catch let error as MissingSets {
                log.append("\(device.client) waits for sets of \(error.clients.map(\.rawValue).sorted())")
            }
            if publishes { try storage.publish(device, withHead: random.chance(70)) }
            // Copies publish heads under one name, of which readers remember only one.
            if cause != .copy, cause != .removedCopies, random.chance(50) { try device.trim() }
        }
    }

    /// When another device restores a row of a late set.
    enum Restoring: CaseIterable {
        /// Before the row's device publishes it again; then the other device may edit it.
        case before, beforeEdit
        case afterwards
    }

    @Test(
        "A row of a late set is there once if another device restores it before its device publishes it again, or later",
        arguments: Restoring.allCases
    )
    func restoredRow(restoring: Restoring) throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema)
        let tablet = try SimulatedDevice("tablet", schemaSQL: schema)
        try phone.edit("INSERT INTO note VALUES (1, 'of the phone')")
        let late = try #require(try phone.capture(at: 10))
        try phone.notePublication()
        try laptop.receive([late])
        // The tablet knows no other device, so it can't undo its own set from then on.
        try tablet.edit("INSERT INTO note VALUES (1, 'of the tablet')")
        try tablet.capture(at: 20)
        try tablet.trim()
        let head = try tablet.publishHead()
        try #require(head.stable != nil)
        try laptop.learn(tablet.sets, heads: [head], removals: [:])
        try laptop.write()
        let lost = try #require(try laptop.loggedConflicts().first)
        #expect(lost.conflict.rule == .setVoid)
        if restoring != .afterwards { #expect(try laptop.restore(lost.number, at: 30)) }
        if restoring == .beforeEdit {
            try laptop.edit("UPDATE note SET title = 'edited' WHERE title = 'of the phone'")
            try #require(try laptop.capture(at: 35) != nil)
        }

        try phone.learn(tablet.sets + laptop.sets, heads: [head], removals: [:])
        #expect(try phone.hasLostIdentity())
        try phone.become("another")
        try phone.adopt()
        let again = try phone.captureVoidSetsAgain(at: 40)
        try phone.write()
        #expect(again.flatMap(\.changes).map(\.row) == late.changes.map(\.row))
        try laptop.receive(again)
        if restoring == .afterwards { #expect(try laptop.restore(lost.number, at: 50)) }
        for device in [phone, tablet] { try device.integrate(laptop.sets + again) }
        for device in [laptop, phone, tablet] {
            try device.write()
            #expect(try device.capture() == nil)
            #expect(
                try device.rows("SELECT title FROM note ORDER BY title") == [#""of the phone""#, #""of the tablet""#]
            )
            #expect(try device.content().rows.mapValues(\.cells) == laptop.content().rows.mapValues(\.cells))
        }
        let overwritten = try laptop.conflicts().filter { $0.rule == .overwritten }.map(\.lost)
        #expect(overwritten == (restoring == .beforeEdit ? [["title": .value(.text(Array("edited".utf8)))]] : []))
    }

    private static let arguments = TestDepth.seeds(quick: 5, deep: 20_000)

    @Test("All devices agree on them, and keep what they overwrite", arguments: Cause.allCases)
    func histories(cause: Cause) throws {
        var voids = 0
        for seed in Self.arguments {
            var history = try History(cause, seed: seed)
            do {
                try history.run()
            } catch {
                Issue.record("seed \(seed): \(error)\n\(history.log.joined(separator: "\n"))")
                continue
            }
            voids += try check(history, "seed \(seed)\n\(history.log.joined(separator: "\n"))")
        }
        // An unknown device captures what others can merge, as long as it has read their heads.
        #expect(voids > 0 || cause == .unknown || Self.arguments.count < 8)
    }

    /// Compares a history's devices with the oracle, and returns how many sets don't count.
    private func check(_ history: History, _ comment: String) throws -> Int {
        let prefixes = try history.storage.heads.compactMap(\.stable) + history.devices.compactMap { try $0.stable() }
        let removals = Dictionary(history.storage.removals.map { ($0.client, $0.last) }, uniquingKeysWith: max)
        let log = OracleLog(history.storage.sets, prefixes: prefixes, removals: removals)
        let oracle = try Oracle.evaluating(history.devices[0].schema)
        let expected = try oracle.fold(log.counting, over: StateContent())
        for device in history.devices {
            let stable = try device.stable()
            let content = try device.content().trimmed(stable)
            #expect(content == expected.content.trimmed(stable), "\(device.client) \(comment)")
            #expect(try device.violations().isEmpty, "\(device.client) \(comment)")
            #expect(try device.capture(at: 1_000) == nil, "\(device.client) \(comment)")
            #expect(try device.captureVoidSetsAgain().isEmpty, "\(device.client) \(comment)")
        }
        let named = Dictionary(grouping: history.storage.sets.flatMap(Self.namedRows), by: \.row)
        let ambiguous = named.filter { Set($0.value.map(\.cells)).count > 1 }
        #expect(ambiguous.isEmpty, "copies give a name to one row only: \(comment)")
        let counting = Set(
            log.counting.flatMap(\.changes).compactMap { change in
                if case .insert = change.edit { RowReference(change.table, change.row) } else { nil }
            }
        )
        #expect(counting.isSuperset(of: named.keys), "rows of sets that don't count have their names again: \(comment)")
        return log.void.count
    }

    /// The rows that a set inserted under names of its client.
    private static func namedRows(_ set: SyncChangeSet) -> [(row: RowReference, cells: [String: Cell])] {
        set.changes.compactMap { change in
            guard case .insert(let inserted) = change.edit, case .numbered(set.header.id.client, _) = change.row else {
                return nil
            }
            return (RowReference(change.table, change.row), inserted.cells)
        }
    }
}
