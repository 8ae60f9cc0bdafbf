import Testing

@testable import StoreChanges

@Suite("Updates of an app that change the schema", .timeLimit(.minutes(60)))
struct MigrationTests {
    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)"
    private static let addition = "ALTER TABLE note ADD COLUMN color TEXT DEFAULT 'red'"

    /// Two devices with a common note.
    private static func devices(_ sql: String = notes) throws -> (laptop: SimulatedDevice, phone: SimulatedDevice) {
        let laptop = try SimulatedDevice("laptop", schemaSQL: sql)
        let phone = try SimulatedDevice("phone", schemaSQL: sql)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try send(laptop, phone)
        return (laptop, phone)
    }

    @discardableResult
    private static func send(
        _ sender: SimulatedDevice,
        _ receiver: SimulatedDevice,
        at time: UInt64 = 0
    ) throws -> SyncChangeSet {
        let set = try #require(try sender.capture(at: time))
        try receiver.integrate([set])
        try sender.write()
        try receiver.write()
        return set
    }

    @Test("A set carries the schema if the one before it had another")
    func description() throws {
        let (laptop, _) = try Self.devices()
        try laptop.edit("UPDATE note SET title = 'bread'")
        try laptop.capture()
        try laptop.migrate(Self.addition)
        try laptop.edit("UPDATE note SET color = 'blue'")
        try laptop.capture()
        try laptop.migrate("ALTER TABLE note ADD COLUMN rank INT")
        #expect(try laptop.capture() == nil)
        try laptop.edit("UPDATE note SET rank = 1")
        try laptop.capture()
        #expect(laptop.sets.map { $0.header.schemaDescription != nil } == [true, false, true, true])
        #expect(laptop.sets.map(\.header.isMigration) == [false, false, true, false], "only what is captured with it")
        #expect(laptop.sets.map(\.header.schema.number) == [1, 1, 2, 3])
    }

    @Test("A column that the app adds, or a table that it rebuilds, isn't an edit and changes no digest")
    func additionIsNoEdit() throws {
        let (laptop, phone) = try Self.devices()
        let digest = try laptop.digests().present
        try laptop.migrate(Self.addition)
        #expect(try laptop.capture() == nil)
        try laptop.migrate(
            """
            CREATE TABLE new (id INTEGER PRIMARY KEY, body TEXT, title TEXT, color TEXT DEFAULT 'red');
            INSERT INTO new SELECT id, body, title, color FROM note;
            DROP TABLE note;
            ALTER TABLE new RENAME TO note;
            """
        )
        #expect(try laptop.capture() == nil)
        #expect(try laptop.digests().present == digest)
        #expect(try laptop.digest(of: laptop.content()) == digest)
        #expect(try phone.digests().present == digest)
    }

    @Test("An older app integrates what it can store, waits with the rest, and continues capturing")
    func olderApp() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.migrate(Self.addition)
        try laptop.edit("UPDATE note SET body = 'two'")
        try Self.send(laptop, phone)
        #expect(try phone.rows("SELECT body FROM note") == ["\"two\""])
        #expect(try !phone.needsNewerSchema())

        try laptop.edit("UPDATE note SET color = 'blue'")
        try Self.send(laptop, phone)
        #expect(try phone.needsNewerSchema())
        try phone.edit("INSERT INTO note (title) VALUES ('bread')")
        try Self.send(phone, laptop)
        #expect(
            try laptop.rows("SELECT title, color FROM note ORDER BY title") == [
                "\"bread\"|\"red\"", "\"milk\"|\"blue\"",
            ]
        )

        try phone.migrate(Self.addition)
        #expect(try !phone.needsNewerSchema())
        try phone.receive([])
        #expect(try phone.rows("SELECT * FROM note ORDER BY title") == laptop.rows("SELECT * FROM note ORDER BY title"))
        #expect(try phone.content() == laptop.content())
        #expect(try phone.digests().present == laptop.digests().present)
        for device in [laptop, phone] { #expect(try device.capture() == nil) }
    }

    @Test(
        "A delete by an older app didn't overlook a new column that holds its default, but did overlook an edit of it"
    )
    func deletedByOlderApp() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO note (id, title) VALUES (2, 'bread')")
        try Self.send(laptop, phone)
        try laptop.migrate(Self.addition)
        try laptop.edit("UPDATE note SET color = 'blue' WHERE id = 2")
        try laptop.capture(at: 10)
        try phone.edit("DELETE FROM note")
        let delete = try #require(try phone.capture(at: 20))
        try laptop.integrate([delete])
        let entries = try laptop.conflicts()
        #expect(entries.map(\.rule) == [.deletedEdited])
        #expect(entries.first?.lost["color"] == .value(.text("blue")))
    }

    @Test("Sets of the newer schema wait for an incompatible change; sets of the older one are integrated")
    func incompatible() throws {
        let (laptop, phone) = try Self.devices()
        let drop = "ALTER TABLE note DROP COLUMN body; CREATE UNIQUE INDEX titles ON note (title)"
        try laptop.migrate(drop)
        try laptop.edit("UPDATE note SET title = 'oat milk'")
        let newer = try #require(try laptop.capture())
        try phone.integrate([newer])
        #expect(try phone.needsNewerSchema())
        try phone.edit("UPDATE note SET body = 'two' WHERE id = 1")
        try phone.edit("INSERT INTO note (title, body) VALUES ('bread', 'one')")
        try Self.send(phone, laptop)
        #expect(try laptop.rows("SELECT title FROM note ORDER BY title") == ["\"bread\"", "\"oat milk\""])
        let lost = try laptop.conflicts().filter { $0.rule == .schemaChanged }.map(\.lost)
        #expect(Set(lost) == [["body": .value(.text("two"))], ["body": .value(.text("one"))]])

        try phone.migrate(drop)
        try phone.receive([])
        #expect(try phone.rows("SELECT * FROM note ORDER BY title") == laptop.rows("SELECT * FROM note ORDER BY title"))
        for device in [laptop, phone] { #expect(try device.capture() == nil) }
    }

    @Test(
        "A device whose update removed a column or table accepts older apps' sets, and logs what it can't store",
        arguments: ["ALTER TABLE note DROP COLUMN body", "DROP TABLE draft"]
    )
    func removal(_ update: String) throws {
        let (laptop, phone) = try Self.devices(Self.notes + "; CREATE TABLE draft (id INTEGER PRIMARY KEY, text TEXT)")
        try laptop.migrate(update)
        try laptop.edit("UPDATE note SET title = 'oat milk'")
        try laptop.capture(at: 10)
        try phone.edit("UPDATE note SET body = 'two'")
        try phone.edit("INSERT INTO draft (text) VALUES ('three')")
        try Self.send(phone, laptop, at: 20)
        #expect(try !laptop.needsNewerSchema())
        let lost = try laptop.conflicts().filter { $0.rule == .schemaChanged }.flatMap(\.lost.values)
        #expect(lost == [update.contains("draft") ? "three" : "two"].map { .value(.text($0)) })
        try phone.edit("INSERT INTO note (title) VALUES ('bread')")
        try Self.send(phone, laptop, at: 30)
        #expect(try laptop.rows("SELECT title FROM note ORDER BY title") == ["\"bread\"", "\"oat milk\""])

        try phone.migrate(update)
        try phone.receive(laptop.sets)
        #expect(try phone.content() == laptop.content())
        #expect(try phone.conflicts() == laptop.conflicts())
        for device in [laptop, phone] { #expect(try device.capture() == nil) }
    }

    @Test("Of two schemas of one number all devices wait for the one with the greater digest")
    func twoSchemas() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.migrate("CREATE UNIQUE INDEX titles ON note (title)")
        try phone.migrate("CREATE UNIQUE INDEX bodies ON note (body)")
        try laptop.edit("UPDATE note SET title = 'bread'")
        try phone.edit("UPDATE note SET body = 'two'")
        let sets = [try #require(try laptop.capture()), try #require(try phone.capture())]
        #expect(sets.map(\.header.schema.number) == [2, 2])
        for device in [laptop, phone] { try device.integrate(sets) }
        #expect(try laptop.needsNewerSchema() != phone.needsNewerSchema())
        let isLaptopGreater = sets[1].header.schema.digest.rawValue
            .lexicographicallyPrecedes(sets[0].header.schema.digest.rawValue)
        #expect(try phone.needsNewerSchema() == isLaptopGreater)
    }

    @Test("A store with an older schema than the replica's is refused, and says what to do")
    func olderStore() throws {
        let (laptop, _) = try Self.devices()
        try laptop.migrate(Self.addition)
        try laptop.edit("UPDATE note SET color = 'blue'")
        try laptop.capture()
        let error = #expect(throws: StoreChangesError.self) { try laptop.migrate("ALTER TABLE note DROP COLUMN color") }
        #expect(error?.code == .newerSchema)
        #expect(error?.message.contains("Update the app") == true)
    }

    @Test("An update that takes a change back needs no word of the user if it adds a column")
    func changeTakenBack() throws {
        let (laptop, _) = try Self.devices()
        try laptop.migrate("CREATE UNIQUE INDEX titles ON note (title)")
        try laptop.edit("INSERT INTO note (title) VALUES ('bread')")
        try laptop.capture()
        try laptop.migrate("DROP INDEX titles; ALTER TABLE note ADD COLUMN version INT")
        try laptop.edit("INSERT INTO note (title) VALUES ('bread')")
        #expect(try laptop.capture()?.header.schema.number == 3)
    }

    @Test("What an update of the app changes counts only where no other device changed the value")
    func migratedValues() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO note (id, title) VALUES (2, 'bread')")
        try Self.send(laptop, phone, at: 10)
        try phone.edit("UPDATE note SET title = 'oat milk' WHERE id = 1")
        let edit = try #require(try phone.capture(at: 20))
        try laptop.migrate(Self.addition)
        try laptop.edit("UPDATE note SET title = upper(title), color = 'blue'")
        let migration = try #require(try laptop.capture(at: 30))
        try phone.migrate(Self.addition)
        try phone.integrate([migration])
        try laptop.integrate([edit])
        for device in [laptop, phone] {
            try device.write()
            let rows = try device.rows("SELECT title, color FROM note ORDER BY id")
            #expect(rows == ["\"oat milk\"|\"blue\"", "\"BREAD\"|\"blue\""])
            let entry = try #require(try device.conflicts().first { $0.rule == .migratedValue })
            #expect(
                entry.lost == ["title": .value(.text("MILK"))] && entry.kept == ["title": .value(.text("oat milk"))]
            )
        }
    }

    @Test(
        "Rows that one update of the app inserts on two devices are there once, with both devices' rows that use them"
    )
    func seeds() throws {
        let (laptop, phone) = try Self.devices()
        let update = """
            CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO kind VALUES (1, 'private'), (2, 'work');
            ALTER TABLE note ADD COLUMN kind INT REFERENCES kind;
            """
        for device in [laptop, phone] { try device.migrate(update) }
        try laptop.edit("INSERT INTO note (title, kind) VALUES ('a', 1)")
        try phone.edit("INSERT INTO note (title, kind) VALUES ('b', 2)")
        let sets = [try #require(try laptop.capture(at: 10)), try #require(try phone.capture(at: 20))]
        for device in [laptop, phone] {
            try device.receive(sets)
            let rows = try device.rows("SELECT title, name FROM note JOIN kind ON kind.id = kind ORDER BY title")
            #expect(rows == ["\"a\"|\"private\"", "\"b\"|\"work\""])
            #expect(try device.rows("SELECT name FROM kind").count == 2)
            #expect(try device.conflicts().isEmpty)
            #expect(try device.capture() == nil)
        }
    }

    @Test("A table of other keys is captured as new rows, and undoing former sets doesn't bring the old ones back")
    func otherKeys() throws {
        let (laptop, phone) = try Self.devices()
        try phone.edit("UPDATE note SET body = 'two'")
        let early = try #require(try phone.capture(at: 5))
        try laptop.edit("UPDATE note SET body = 'one'")
        try laptop.capture(at: 10)
        let rebuild = """
            CREATE TABLE new (title TEXT PRIMARY KEY NOT NULL, body TEXT);
            INSERT INTO new SELECT title, body FROM note;
            DROP TABLE note;
            ALTER TABLE new RENAME TO note;
            """
        try laptop.migrate(rebuild)
        let migration = try #require(try laptop.capture(at: 20))
        #expect(migration.changes.count == 1)
        try laptop.receive([early])
        #expect(try laptop.rows("SELECT * FROM note") == ["\"milk\"|\"one\""])
        #expect(try laptop.capture() == nil)
    }

    @Test("An older app's delete of a row that has another key now is logged on both devices, with nothing to restore")
    func deletedUnderFormerKey() throws {
        let pair = try DevicePair("CREATE TABLE word (text TEXT PRIMARY KEY NOT NULL, meaning TEXT)")
        let (laptop, phone) = (pair.laptop, pair.phone)
        try laptop.edit("INSERT INTO word VALUES ('hi', '1'), ('so', '2')")
        try pair.exchange()
        let rebuild = """
            CREATE TABLE new (
                text TEXT NOT NULL, language TEXT NOT NULL DEFAULT 'en', meaning TEXT, PRIMARY KEY (text, language)
            );
            INSERT INTO new (text, meaning) SELECT text, meaning FROM word;
            DROP TABLE word;
            ALTER TABLE new RENAME TO word;
            """
        try laptop.migrate(rebuild)
        try laptop.capture(at: 10)
        try phone.edit("DELETE FROM word WHERE text = 'hi'")
        try phone.capture(at: 20)
        try phone.migrate(rebuild)
        try phone.capture(at: 30)
        try laptop.integrate(phone.sets)
        try phone.integrate(laptop.sets)
        let text = Cell.value(.text("hi"))
        for device in [laptop, phone] {
            try device.write()
            let rows = try device.rows("SELECT text, language FROM word ORDER BY text")
            #expect(rows == ["\"hi\"|\"en\"", "\"so\"|\"en\""])
            let entries = try device.conflicts().filter { $0.rule == .schemaChanged }
            #expect(entries.map(\.row) == [RowReference("word", .key([text]))])
            #expect(entries.map(\.kept) == [["text": text]])
            #expect(entries.allSatisfy { $0.lost.isEmpty && !$0.hasLoss && $0.summary.hasPrefix("not deleted") })
        }
    }

    @Test("An older app's delete of a row whose number isn't its key any more is logged, or whose table is gone")
    func deletedByFormerNumber() throws {
        for update in ["CREATE TABLE note (title TEXT PRIMARY KEY NOT NULL); INSERT INTO note VALUES ('milk')", ""] {
            let (laptop, phone) = try Self.devices()
            try laptop.migrate("DROP TABLE note; CREATE TABLE draft (text TEXT PRIMARY KEY NOT NULL); \(update)")
            try laptop.edit("INSERT INTO draft VALUES ('bread')")
            try laptop.capture(at: 10)
            try phone.edit("DELETE FROM note")
            try laptop.receive([try #require(try phone.capture(at: 20))])
            let entries = try laptop.conflicts()
            #expect(entries.map(\.rule) == [.schemaChanged], "\(entries)")
            #expect(entries.allSatisfy { $0.kept == ["id": .row($0.row.row)] && !$0.hasLoss })
        }
    }

    @Test("What an update of the app changes in columns of one constraint counts or is left out together")
    func columnsOfOneConstraint() throws {
        let (laptop, phone) = try Self.devices(
            "\(Self.notes); CREATE TABLE span (id INTEGER PRIMARY KEY, name TEXT, first INT, last INT, CHECK (first <= last))"
        )
        try laptop.edit("INSERT INTO span VALUES (1, 'spring', 3, 4)")
        try Self.send(laptop, phone, at: 1)
        try phone.edit("UPDATE span SET last = 3")
        let edit = try #require(try phone.capture(at: 10))
        try laptop.migrate(Self.addition)
        // Of both columns one has another value on the phone.
        try laptop.edit("UPDATE span SET first = 4, last = 5")
        let update = try #require(try laptop.capture(at: 20))
        #expect(update.header.isMigration)
        try laptop.integrate([edit])
        try phone.integrate([update])
        for device in [laptop, phone] {
            try device.write()
            #expect(try device.rows("SELECT first, last FROM span") == ["3|3"])
            let conflicts = try device.conflicts()
            #expect(conflicts.map(\.rule) == [.migratedValue], "\(conflicts)")
        }
    }

    @Test("A row that an update inserts stays beside an equal row that the device had got before, trimmed or not")
    func equalRowSeenBefore() throws {
        let (laptop, phone) = try Self.devices("\(Self.notes); CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT)")
        try laptop.migrate(Self.addition)
        try laptop.edit("INSERT INTO tag (name) VALUES ('welcome')")
        try Self.send(laptop, phone, at: 1)
        let heads = try [laptop.publishHead(), phone.publishHead()]
        for device in [laptop, phone] { try device.remember(heads.filter { $0.client != device.client }) }
        try laptop.trim()
        try phone.migrate(Self.addition)
        try phone.edit("INSERT INTO tag (name) VALUES ('welcome')")
        let second = try Self.send(phone, laptop, at: 2)
        #expect(second.header.isMigration && second.header.seen[laptop.client]?.sequence == 2)
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT name FROM tag") == ["\"welcome\"", "\"welcome\""])
        }
        #expect(try laptop.digests().present == phone.digests().present)
    }

    @Test("A reference that the app adds finds the rows that were there before")
    func addedReference() throws {
        let (laptop, phone) = try Self.devices(
            Self.notes + "; CREATE TABLE folder (name TEXT PRIMARY KEY NOT NULL, color TEXT)"
        )
        try laptop.edit("INSERT INTO folder VALUES ('home', 'red')")
        try Self.send(laptop, phone)
        for device in [laptop, phone] {
            try device.migrate("ALTER TABLE note ADD COLUMN folder TEXT REFERENCES folder ON DELETE CASCADE")
        }
        try laptop.edit("UPDATE note SET folder = 'home'")
        try Self.send(laptop, phone)
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT folder FROM note") == ["\"home\""])
            #expect(try device.conflicts().isEmpty)
        }
        // Both devices change what the reference leads to.
        try laptop.edit("DELETE FROM note")
        try laptop.edit("DELETE FROM folder")
        try phone.edit("INSERT INTO note (title, folder) VALUES ('bread', 'home')")
        let (delete, insert) = (try #require(try laptop.capture(at: 10)), try #require(try phone.capture(at: 20)))
        try laptop.integrate([insert])
        try phone.integrate([delete])
        for device in [laptop, phone] {
            #expect(try device.content().rows.isEmpty)
            #expect(try device.conflicts().map(\.rule) == [.deletedWithParent])
        }
    }

    @Test("A set that arrives before the set with its schema is read as soon as that set is there")
    func lateDescription() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.migrate(Self.addition)
        try laptop.edit("UPDATE note SET body = 'one'")
        let first = try #require(try laptop.capture())
        try laptop.edit("UPDATE note SET body = 'two'")
        let second = try #require(try laptop.capture())
        try phone.integrate([second])
        #expect(try phone.needsNewerSchema())
        try phone.integrate([first])
        #expect(try !phone.needsNewerSchema())
        try phone.write()
        #expect(try phone.rows("SELECT body FROM note") == ["\"two\""])
    }

    @Test("Sets of many newer schemas that arrive together take steps in proportion to their number")
    func manyNewerSchemas() throws {
        func steps(_ count: Int) throws -> Int {
            let (laptop, phone) = try Self.devices()
            let known = laptop.sets.count
            for number in 0..<count {
                try laptop.migrate("ALTER TABLE note ADD COLUMN added\(number) TEXT")
                try laptop.edit("UPDATE note SET added\(number) = 'x'")
                try laptop.capture()
            }
            let steps = try phone.replicaSteps { try phone.integrate(Array(laptop.sets.dropFirst(known))) }
            #expect(try phone.needsNewerSchema())
            return steps
        }
        #expect(try steps(40) < 8 * steps(10))
    }

    @Test("Sets wait for the same updates of the app whether they arrive together or one by one, in any order")
    func orderOfNewerSchemas() throws {
        let (laptop, _) = try Self.devices()
        let known = laptop.sets.count
        for column in ["color", "rank", "place"] {
            try laptop.migrate("ALTER TABLE note ADD COLUMN \(column) TEXT")
            try laptop.edit("UPDATE note SET title = '\(column)'")
            try laptop.capture()
            try laptop.edit("UPDATE note SET \(column) = 'x'")
            try laptop.capture()
        }
        let sets = Array(laptop.sets.dropFirst(known))
        let titles = try [[sets], sets.map { [$0] }, sets.reversed().map { [$0] }].map { arrivals in
            let phone = try SimulatedDevice("phone", schemaSQL: Self.notes)
            try phone.integrate(Array(laptop.sets.prefix(known)))
            for arrival in arrivals { try phone.integrate(arrival) }
            try phone.write()
            #expect(try phone.needsNewerSchema())
            return try phone.rows("SELECT title FROM note")
        }
        #expect(Set(titles) == [["\"color\""]])
    }

    @Test("The log's headers don't repeat the schema that a set tells")
    func headersWithoutSchemas() throws {
        let columns = (0..<50).map { "column\($0) TEXT" }.joined(separator: ", ")
        let device = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, \(columns))")
        try device.edit("INSERT INTO note (id) VALUES (1)")
        let description = try #require(try device.capture()?.header.schemaDescription)
        #expect(try device.headerByteCount() < description.encoded.count)
    }

    @Test("An update of the app takes about twice as many steps for twice as many rows without a key")
    func manyCountedRows() throws {
        let steps = try [500, 1000].map { count in
            let device = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE word (text TEXT)")
            let values = (0..<count).map { "('word \($0)')" }.joined(separator: ", ")
            try device.edit("INSERT INTO word VALUES \(values)")
            try device.begin()
            return try device.replicaSteps {
                try device.migrate("ALTER TABLE word ADD COLUMN language TEXT DEFAULT 'en'")
            }
        }
        #expect(steps[0] > 0 && 2 * steps[1] < 5 * steps[0])
    }

    @Test("Rows without a key get the new column's default, and are the same rows as before")
    func countedRows() throws {
        let laptop = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE line (a TEXT)")
        let phone = try SimulatedDevice("phone", schemaSQL: "CREATE TABLE line (a TEXT)")
        try laptop.edit("INSERT INTO line VALUES ('x'), ('x')")
        try Self.send(laptop, phone)
        let addition = "ALTER TABLE line ADD COLUMN \"0\" INT DEFAULT 7"
        try laptop.migrate(addition)
        #expect(try laptop.capture() == nil)
        try phone.edit("DELETE FROM line WHERE rowid = 1")
        try phone.edit("INSERT INTO line VALUES ('y')")
        try Self.send(phone, laptop)
        #expect(try laptop.rows("SELECT a, \"0\" FROM line ORDER BY a") == ["\"x\"|7", "\"y\"|7"])
        try phone.migrate(addition)
        #expect(try phone.capture() == nil)
        #expect(try phone.content() == laptop.content())
        #expect(try phone.digests().present == laptop.digests().present)
    }
}
