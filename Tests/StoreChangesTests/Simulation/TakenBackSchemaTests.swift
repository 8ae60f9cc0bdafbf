import StoreChanges
import Testing

@Suite("Changes of a schema that an app takes back", .timeLimit(.minutes(60)))
struct TakenBackSchemaTests {
    @Test("Sets in a schema that another device has taken back are read as soon as that device's next set is there")
    func takenBackElsewhere() throws {
        let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)"
        let devices = try DevicePair(notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        let tablet = try SimulatedDevice("tablet", schemaSQL: notes)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        try tablet.receive(laptop.sets)
        try phone.migrate("CREATE UNIQUE INDEX titles ON note (title)")
        try phone.edit("UPDATE note SET body = 'two'")
        let former = try #require(try phone.capture())
        try laptop.migrate("CREATE UNIQUE INDEX titles ON note (title)")
        try laptop.integrate([former])
        try devices.exchange()

        try laptop.migrate("DROP INDEX titles", takesOlderSchema: true)
        try laptop.edit("INSERT INTO note (title) VALUES ('bread')")
        let present = try #require(try laptop.capture())
        #expect(present.header.schema.number == 3 && present.header.schemaDescription == nil)
        try tablet.integrate([former])
        #expect(try tablet.needsNewerSchema())
        try tablet.integrate([present])
        #expect(try !tablet.needsNewerSchema())
        try tablet.write()
        #expect(try tablet.rows("SELECT title FROM note WHERE body = 'two'") == ["\"milk\""])
        #expect(try tablet.content() == laptop.content())
    }

    @Test("A set without a change tells, once, that a schema is taken back, and other devices continue")
    func takenBackWithoutEdit() throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        func rebuild(_ column: String) -> String {
            """
            CREATE TABLE new (id INTEGER PRIMARY KEY, \(column)); INSERT INTO new SELECT * FROM note; DROP TABLE note;
            ALTER TABLE new RENAME TO note
            """
        }
        try laptop.migrate(rebuild("title TEXT COLLATE RTRIM"))
        try laptop.edit("UPDATE note SET title = 'oat milk'")
        try phone.integrate([try #require(try laptop.capture())])
        #expect(try phone.needsNewerSchema())
        try laptop.migrate(rebuild("title TEXT"), takesOlderSchema: true)
        let set = try #require(try laptop.capture())
        #expect(set.changes.isEmpty && set.header.schema.number == 3)
        try phone.integrate([set])
        #expect(try !phone.needsNewerSchema())
        try devices.exchange()
        #expect(try phone.rows("SELECT title FROM note") == ["\"oat milk\""])
    }
}
