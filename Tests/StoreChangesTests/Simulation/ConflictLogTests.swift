import StoreChanges
import Testing

@Suite("The conflict log of a replica", .timeLimit(.minutes(60)))
struct ConflictLogTests {
    private let laptop: SimulatedDevice
    private let phone: SimulatedDevice
    private let tablet: SimulatedDevice

    init() throws {
        let sql = "CREATE TABLE visit (place TEXT)"
        laptop = try SimulatedDevice("laptop", schemaSQL: sql)
        phone = try SimulatedDevice("phone", schemaSQL: sql)
        tablet = try SimulatedDevice("tablet", schemaSQL: sql)
    }

    /// Lets the laptop capture a set that the phone has then, too.
    private func begin(_ sql: String) throws {
        try laptop.edit(sql)
        try laptop.capture(at: 1)
        try phone.integrate(laptop.sets)
        try phone.write()
    }

    @Test("Of equal entries, as many keep their numbers as the set has when it's integrated again")
    func equalEntries() throws {
        try begin("INSERT INTO visit VALUES ('market'), ('market')")
        for device in [laptop, phone] { try device.edit("DELETE FROM visit") }
        try laptop.capture(at: 10)
        let delete = try #require(try phone.capture(at: 20))
        try tablet.edit("INSERT INTO visit VALUES ('market')")
        let earlier = try #require(try tablet.capture(at: 5))
        try laptop.integrate([delete])
        let entries = try laptop.loggedConflicts()
        #expect(entries.map(\.conflict.rule) == [.countBelowZero, .countBelowZero])
        // The phone's set finds one of three rows.
        try laptop.integrate([earlier])
        #expect(try laptop.loggedConflicts() == [entries[0]])
    }

    @Test("An entry that a set has only since it's integrated again gets another number, and is news")
    func newEntries() throws {
        try begin("INSERT INTO visit VALUES ('market'), ('market'), ('school')")
        try laptop.edit("DELETE FROM visit WHERE place = 'market'")
        try laptop.capture(at: 10)
        try phone.edit("DELETE FROM visit")
        let delete = try #require(try phone.capture(at: 20))
        try tablet.integrate(Array(laptop.sets.prefix(1)))
        try tablet.write()
        try tablet.edit("DELETE FROM visit WHERE place = 'school'")
        let earlier = try #require(try tablet.capture(at: 5))
        try laptop.integrate([delete])
        let entries = try laptop.loggedConflicts()
        let last = try #require(entries.last?.number)
        #expect(entries.count == 2)
        try laptop.integrate([earlier])
        let present = try laptop.loggedConflicts()
        #expect(present.prefix(2) == entries[...] && present.count == 3)
        #expect(try laptop.conflictCount(after: last) == 1)
    }

    @Test("The other sides of the conflicts of many sets are found in steps in proportion to the number of the sets")
    func manyConflicts() throws {
        /// The steps by which edits of rows that the laptop has edited too take longer than those of other rows.
        func steps(_ count: Int) throws -> Int {
            let taken = try [0, count].map { offset in
                let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
                let notes = (1...2 * count).map { "(\($0), 'note')" }.joined(separator: ", ")
                try devices.laptop.edit("INSERT INTO note VALUES \(notes)")
                try devices.exchange()
                for number in 1...count {
                    try devices.laptop.edit("UPDATE note SET title = 'laptop' WHERE id = \(number)")
                    try devices.laptop.capture(at: 1000)
                    try devices.phone.edit("UPDATE note SET title = 'phone' WHERE id = \(offset + number)")
                    try devices.phone.capture(at: 2000)
                }
                let sets = Array(devices.phone.sets.suffix(count))
                let steps = try devices.laptop.replicaSteps(every: 1) { try devices.laptop.integrate(sets) }
                let edits = devices.laptop.sets.suffix(offset == 0 ? count : 0)
                let others = try devices.laptop.loggedConflicts().map(\.other?.set)
                #expect(others == edits.map { $0.header.id })
                return steps
            }
            return taken[0] - taken[1]
        }
        #expect(try steps(80) < 8 * steps(20))
    }

    @Test("Conflicts of large rows are written before they fill the memory, and their other sides are right")
    func largeConflicts() throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let numbers = 1...8
        try devices.laptop.edit(
            "INSERT INTO note VALUES \(numbers.map { "(\($0), 'note')" }.joined(separator: ", "))"
        )
        try devices.exchange()
        for number in numbers {
            try devices.laptop.edit("UPDATE note SET title = hex(zeroblob(300000)) WHERE id = \(number)")
            try devices.laptop.capture(at: 1000)
            try devices.phone.edit("UPDATE note SET title = 'phone' WHERE id = \(number)")
            try devices.phone.capture(at: 2000)
        }
        let edits = devices.laptop.sets.suffix(numbers.count)
        let statements = try devices.laptop.replicaStatements {
            try devices.laptop.integrate(Array(devices.phone.sets.suffix(numbers.count)))
        }
        #expect(try devices.laptop.loggedConflicts().map(\.other?.set) == edits.map { $0.header.id })
        let firstWrite = try #require(statements.firstIndex { $0.hasPrefix("INSERT INTO conflicts") })
        let lastSet = try #require(statements.lastIndex { $0.hasPrefix("UPDATE sets SET") && $0.contains("sum = ?") })
        #expect(firstWrite < lastSet)
    }
}
