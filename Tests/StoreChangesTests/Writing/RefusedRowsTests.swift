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
            CREATE TABLE step (
                id INTEGER PRIMARY KEY, pair INT REFERENCES pair (id), next INT REFERENCES step (id)
            );
            CREATE TABLE visit (pair TEXT REFERENCES pair (code), day TEXT);
            CREATE TABLE badge (name TEXT UNIQUE, color TEXT);
            CREATE TABLE owner (
                id INTEGER PRIMARY KEY, badge TEXT REFERENCES badge (name), first INT REFERENCES person (id),
                second INT REFERENCES person (id), CHECK (first < second)
            );
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
        try phone.receive(Array(laptop.sets.dropFirst(former)))
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

    @Test("A row without a key waits that refers to a row which the store refuses")
    func rowWithoutKey() throws {
        try laptop.edit("INSERT INTO visit VALUES ('ab', 'Monday'), ('bc', 'Monday')")
        try bring()
        #expect(try phone.rows("SELECT pair FROM visit").map { $0.replacing("\"", with: "") } == ["bc"])
        #expect(try phone.refusals().map(\.table) == ["pair", "remark", "visit"])
        #expect(try phone.violations().isEmpty)
        #expect(try phone.capture() == nil, "no row that waits is taken for an edit")
        try laptop.edit("UPDATE pair SET first = NULL WHERE id = 1")
        try bring()
        #expect(try phone.rows("SELECT pair FROM visit").count == 2)
        #expect(try phone.refusals().isEmpty)
    }

    @Test("A row without a key is deleted only when the store takes the row that refers to another one from then on")
    func parentWithoutKey() throws {
        try laptop.edit("INSERT INTO badge VALUES ('a', 'red'); INSERT INTO owner VALUES (1, 'a', NULL, NULL)")
        try bring()
        try laptop.edit(
            """
            INSERT INTO badge VALUES ('b', 'blue');
            UPDATE owner SET badge = 'b', first = 1, second = 2;
            DELETE FROM badge WHERE name = 'a'
            """
        )
        try bring()
        #expect(try phone.violations().isEmpty)
        #expect(try phone.refusals().map(\.table) == ["badge", "owner", "pair", "remark"])
        #expect(try phone.rows("SELECT name FROM badge").count == 2)
        #expect(try phone.capture() == nil, "no row that waits is taken for an edit")
        try laptop.edit("UPDATE owner SET first = NULL")
        try bring()
        #expect(try phone.rows("SELECT name FROM badge") == laptop.rows("SELECT name FROM badge"))
        #expect(try phone.violations().isEmpty)
    }

    @Test("Rows that take each other's unique values wait all at once while the store refuses the last of them")
    func takenUniqueValues() throws {
        let pairs = (1...20).map { "(\($0), 'c\($0)', NULL, NULL)" }.joined(separator: ", ")
        let devices = try RefusedRowsTests(pairs: "INSERT INTO pair VALUES \(pairs)")
        try devices.laptop.edit(
            """
            UPDATE pair SET code = 'x' || id;
            UPDATE pair SET code = 'c' || (id + 1);
            UPDATE pair SET first = 1, second = 2 WHERE id = 20
            """
        )
        try devices.bring()
        #expect(devices.phone.refusedWriteCount == 1)
        #expect(try devices.phone.refusals().map(\.count) == [20])
        #expect(try devices.phone.rows("SELECT id FROM pair WHERE code = 'c' || id").count == 20)
        try devices.laptop.edit("UPDATE pair SET first = NULL WHERE id = 20")
        try devices.bring()
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.rows("SELECT id FROM pair WHERE code = 'c' || (id + 1)").count == 20)
    }

    @Test("A row gets the unique value of a row that is deleted only when the store takes that delete")
    func valueOfDeletedRow() throws {
        let devices = try RefusedRowsTests(
            pairs: "INSERT INTO pair VALUES (1, 'ab', NULL, NULL), (2, 'bc', NULL, NULL)"
        )
        try devices.laptop.edit("INSERT INTO step VALUES (1, 1, NULL)")
        try devices.bring()
        // The step waits for pair 3, which is refused; so pair 1 stays for the step, and pair 2 can't have its code yet.
        try devices.laptop.edit(
            """
            INSERT INTO pair VALUES (3, 'cd', 1, 2);
            UPDATE step SET pair = 3;
            DELETE FROM pair WHERE id = 1;
            UPDATE pair SET code = 'ab' WHERE id = 2
            """
        )
        try devices.bring()
        #expect(devices.phone.refusedWriteCount == 1)
        #expect(try devices.phone.violations().isEmpty)
        #expect(try devices.phone.rows("SELECT code FROM pair").count == 2)
        try devices.laptop.edit("UPDATE pair SET first = NULL WHERE id = 3")
        try devices.bring()
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.rows("SELECT code FROM pair") == devices.laptop.rows("SELECT code FROM pair"))
    }

    @Test(
        "The rows that wait with a refused one are found in steps in proportion to their number, whatever their order"
    )
    func longChain() throws {
        func steps(_ count: Int) throws -> Int {
            let devices = try RefusedRowsTests(pairs: "")
            let steps = (1..<count).map { "(\($0), NULL, \($0 + 1))" } + ["(\(count), 1, NULL)"]
            let inserts =
                "INSERT INTO pair VALUES (1, 'ab', 1, 2); INSERT INTO step VALUES \(steps.joined(separator: ", "))"
            try devices.laptop.edit(inserts, observingForeignKeys: false)
            let former = devices.laptop.sets.count
            try devices.laptop.capture()
            try devices.phone.integrate(Array(devices.laptop.sets.dropFirst(former)))
            let taken = try devices.phone.replicaSteps { try devices.phone.write() }
            #expect(try devices.phone.refusals().map(\.count) == [1, count])
            return taken
        }
        #expect(try steps(120) < 8 * steps(30))
    }
}
