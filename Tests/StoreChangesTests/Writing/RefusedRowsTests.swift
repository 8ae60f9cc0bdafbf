import StoreChanges
import Testing

@Suite("Rows that a store refuses", .timeLimit(.minutes(60)))
struct RefusedRowsTests {
    private let laptop: SimulatedDevice
    private let phone: SimulatedDevice

    /// Two devices whose numbers of people differ, so that a pair is in ascending order only on the laptop.
    private init(pairs: String) throws {
        let sql = """
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE pair (
                id INTEGER PRIMARY KEY, code TEXT UNIQUE, first INT REFERENCES person (id),
                second INT REFERENCES person (id), CHECK (first < second)
            );
            CREATE TABLE remark (id INTEGER PRIMARY KEY, pair TEXT REFERENCES pair (code), text TEXT);
            """
        laptop = try SimulatedDevice("laptop", schemaSQL: sql)
        phone = try SimulatedDevice("phone", schemaSQL: sql)
        try phone.edit("INSERT INTO person VALUES (1, 'Zoe'), (10, 'Yan')")
        try laptop.edit("INSERT INTO person VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cem'); \(pairs)")
        try phone.capture()
        try bring()
    }

    init() throws {
        try self.init(
            pairs: """
                INSERT INTO pair VALUES (1, 'ab', 1, 2), (2, 'bc', 2, 3);
                INSERT INTO remark VALUES (1, 'ab', 'friends'), (2, 'bc', 'neighbours')
                """
        )
    }

    /// Lets the phone integrate and write what the laptop's user changed.
    private func bring() throws {
        let former = laptop.sets.count
        try laptop.capture()
        try phone.integrate(Array(laptop.sets.dropFirst(former)))
        try phone.write()
    }

    private func remarks() throws -> [String] {
        try phone.rows("SELECT text, code FROM remark JOIN pair ON code = remark.pair ORDER BY text")
            .map { $0.replacing("\"", with: "") }
    }

    @Test("A row waits that refers by a unique value to a row which the store refuses, and comes with it")
    func uniqueReference() throws {
        #expect(try remarks() == ["neighbours|bc"])
        #expect(try phone.refusals().map(\.table) == ["pair", "remark"])
        #expect(try phone.violations().isEmpty)
        try laptop.edit("UPDATE pair SET first = NULL WHERE id = 1")
        try bring()
        #expect(try remarks() == ["friends|ab", "neighbours|bc"])
        #expect(try phone.refusals().isEmpty)
    }

    @Test("A row whose reference follows a unique value waits while the store refuses that value")
    func changedUniqueValue() throws {
        try laptop.edit("UPDATE pair SET first = NULL WHERE id = 1")
        try bring()
        try laptop.edit(
            "UPDATE pair SET first = 1, code = 'x' WHERE id = 1; UPDATE remark SET pair = 'x' WHERE id = 1",
            observingForeignKeys: false
        )
        try bring()
        #expect(try remarks() == ["friends|ab", "neighbours|bc"])
        #expect(try phone.refusals().map(\.table) == ["pair", "remark"])
        #expect(try phone.violations().isEmpty)
        #expect(try phone.capture() == nil, "no row that waits is taken for an edit")
        try laptop.edit("UPDATE pair SET first = NULL WHERE id = 1")
        try bring()
        #expect(try remarks() == ["friends|x", "neighbours|bc"])
        #expect(try phone.refusals().isEmpty)
    }
}
