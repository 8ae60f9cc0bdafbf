import StoreChanges
import Testing

@Suite("References to deleted rows, where the app doesn't enforce foreign keys", .timeLimit(.minutes(60)))
struct LeftReferenceTests {
    private static let notes = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder, title TEXT);
        """

    /// Two devices that number two folders the other way round; the laptop's has a note.
    private static func devices(_ schema: String = notes) throws -> DevicePair {
        let devices = try DevicePair(schema)
        try devices.laptop.edit("INSERT INTO folder VALUES (1, 'home')")
        try devices.exchange()
        try devices.laptop.edit("INSERT INTO folder VALUES (2, 'work'); INSERT INTO note VALUES (1, 2, 'report')")
        try devices.phone.edit("INSERT INTO folder VALUES (2, 'garden')")
        try devices.exchange()
        #expect(
            try devices.laptop.rows("SELECT name FROM folder ORDER BY id") == [#""home""#, #""work""#, #""garden""#]
        )
        #expect(
            try devices.phone.rows("SELECT name FROM folder ORDER BY id") == [#""home""#, #""garden""#, #""work""#]
        )
        return devices
    }

    private static func deleteWork(_ device: SimulatedDevice) throws {
        try device.edit("DELETE FROM folder WHERE name = 'work'", observingForeignKeys: false)
    }

    /// The notes, each with its folder.
    private static func notes(_ device: SimulatedDevice) throws -> [String] {
        try device.rows("SELECT title, name FROM note LEFT JOIN folder ON folder.id = folder ORDER BY title")
    }

    /// Lets both devices have all sets of each other.
    private static func bring(_ devices: DevicePair) throws {
        try devices.laptop.integrate(devices.phone.sets)
        try devices.phone.integrate(devices.laptop.sets)
        for device in [devices.laptop, devices.phone] { try device.write() }
        try devices.exchange()
    }

    @Test(
        "A row whose parent its app deleted alone stays and refers to no other row, on all devices",
        arguments: ["", "ON DELETE CASCADE", "ON DELETE SET NULL"]
    )
    func delete(action: String) throws {
        let schema = """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder \(action), title TEXT);
            """
        let devices = try Self.devices(schema)
        let (laptop, phone) = (devices.laptop, devices.phone)
        let count = phone.sets.count
        try Self.deleteWork(laptop)
        try devices.exchange()
        #expect(phone.sets.count == count, "the phone publishes nothing")

        let tablet = try SimulatedDevice("tablet", schemaSQL: schema)
        try tablet.integrate(laptop.sets + phone.sets)
        try tablet.write()
        #expect(try tablet.capture() == nil)
        #expect(try tablet.content() == laptop.content())
        for device in [laptop, phone, tablet] {
            #expect(try Self.notes(device) == [#""report"|NULL"#])
            #expect(try device.rows("SELECT name FROM folder ORDER BY name") == [#""garden""#, #""home""#])
            #expect(try device.conflicts().isEmpty)
        }
        #expect(try laptop.rows("SELECT folder FROM note") == ["2"])
        #expect(try phone.rows("SELECT folder FROM note") == ["3"])
    }

    @Test("A row whose key refers to a deleted row is no other row")
    func key() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE song (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE song_tag (song INTEGER NOT NULL REFERENCES song, tag TEXT NOT NULL, PRIMARY KEY (song, tag));
            CREATE TABLE play (song INTEGER REFERENCES song);
            """
        )
        try devices.laptop.edit("INSERT INTO song VALUES (1, 'a')")
        try devices.exchange()
        try devices.laptop.edit("INSERT INTO song VALUES (2, 'work'); INSERT INTO song_tag VALUES (2, 'loud')")
        try devices.laptop.edit("INSERT INTO play VALUES (2), (2)")
        try devices.phone.edit("INSERT INTO song VALUES (2, 'garden'); INSERT INTO play VALUES (2)")
        try devices.phone.edit("INSERT INTO song_tag VALUES (2, 'loud'), (2, 'calm')")
        try devices.exchange()
        try devices.laptop.edit("DELETE FROM song WHERE title = 'work'", observingForeignKeys: false)
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(
                try device.rows(
                    "SELECT tag, title FROM song_tag t LEFT JOIN song s ON s.id = t.song ORDER BY tag, title"
                ) == [#""calm"|"garden""#, #""loud"|NULL"#, #""loud"|"garden""#]
            )
            #expect(
                try device.rows("SELECT title FROM play p LEFT JOIN song s ON s.id = p.song ORDER BY title")
                    == ["NULL", "NULL", #""garden""#]
            )
            #expect(try device.conflicts().isEmpty)
        }
    }

    /// How many rows each deleted row of a table left, in a capture.
    private static func leftCounts(_ table: String, _ device: SimulatedDevice) throws -> [Int] {
        let former = device.sets.count
        try device.capture()
        return device.sets.dropFirst(former).flatMap(\.changes).compactMap { change in
            guard change.table == table, case .delete(let row) = change.edit else { return nil }
            return row.left.count
        }
    }

    @Test("Deleted rows whose children have no key and no index are captured in steps in proportion to their number")
    func manyChildrenWithoutKey() throws {
        func steps(_ count: Int) throws -> Int {
            let laptop = try SimulatedDevice(
                "laptop",
                schemaSQL: """
                    CREATE TABLE song (id INTEGER PRIMARY KEY, title TEXT);
                    CREATE TABLE play (song INTEGER REFERENCES song, time TEXT);
                    """
            )
            let songs = (1...count).map { "(\($0), 'x')" }.joined(separator: ", ")
            try laptop.edit("INSERT INTO song VALUES \(songs); INSERT INTO play VALUES \(songs)")
            try laptop.capture()
            try laptop.write()
            try laptop.edit("DELETE FROM song", observingForeignKeys: false)
            var left: [Int] = []
            let steps = try laptop.storeSteps { left = try Self.leftCounts("song", laptop) }
            #expect(left == Array(repeating: 1, count: count))
            return steps
        }
        #expect(try steps(200) < 8 * steps(50))
    }

    @Test("A deleted row names no rows without keys that are gone too, whichever table is compared first")
    func childrenWithoutKeyGone() throws {
        let laptop = try SimulatedDevice(
            "laptop",
            schemaSQL: """
                CREATE TABLE song (id INTEGER PRIMARY KEY, title TEXT);
                CREATE TABLE play (song INTEGER REFERENCES song);
                CREATE TABLE visit (song INTEGER REFERENCES song);
                """
        )
        try laptop.edit(
            "INSERT INTO song VALUES (1, 'a'), (2, 'b'); INSERT INTO play VALUES (1), (2); INSERT INTO visit VALUES (1), (2)"
        )
        try laptop.capture()
        try laptop.write()
        try laptop.edit(
            "DELETE FROM song; DELETE FROM play WHERE song = 1; DELETE FROM visit WHERE song = 1",
            observingForeignKeys: false
        )
        #expect(try Self.leftCounts("song", laptop).sorted() == [0, 2])
    }

    @Test("A deleted row without a key names the rows that still refer to it")
    func parentWithoutKey() throws {
        let laptop = try SimulatedDevice(
            "laptop",
            schemaSQL: """
                CREATE TABLE tag (name TEXT UNIQUE);
                CREATE TABLE marking (tag TEXT REFERENCES tag (name), page INT);
                CREATE TABLE word (id INTEGER PRIMARY KEY, tag TEXT REFERENCES tag (name));
                """
        )
        try laptop.edit("INSERT INTO tag VALUES ('a'), ('b'); INSERT INTO word VALUES (1, 'a'), (2, 'b')")
        try laptop.edit("INSERT INTO marking VALUES ('a', 1), ('a', 2), ('a', 2), ('b', 3)")
        try laptop.capture()
        try laptop.write()
        try laptop.edit(
            "DELETE FROM tag; DELETE FROM marking WHERE page = 1; DELETE FROM word WHERE id = 2",
            observingForeignKeys: false
        )
        #expect(try Self.leftCounts("tag", laptop).sorted() == [1, 2], "one marking of each tag, and a word")
    }

    @Test(
        "Each row of a chain refers to what its app left",
        arguments: [
            ("DELETE FROM folder WHERE name = 'work'", #""report"|"todo"|NULL"#),
            ("DELETE FROM list WHERE name = 'todo'", #""report"|NULL|NULL"#),
            ("DELETE FROM folder WHERE name = 'work'; DELETE FROM list WHERE name = 'todo'", #""report"|NULL|NULL"#),
        ]
    )
    func chain(edit: String, expected: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE list (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder ON DELETE CASCADE, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, list INTEGER NOT NULL REFERENCES list, title TEXT);
            """
        )
        for (device, folder, list, note) in [
            (devices.laptop, "work", "todo", "report"), (devices.phone, "garden", "plants", "roses"),
        ] {
            try device.edit("INSERT INTO folder VALUES (1, '\(folder)'); INSERT INTO list VALUES (1, 1, '\(list)')")
            try device.edit("INSERT INTO note VALUES (1, 1, '\(note)')")
        }
        try devices.exchange()
        try devices.laptop.edit(edit, observingForeignKeys: false)
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(
                try device.rows(
                    """
                    SELECT title, list.name, folder.name FROM note
                    LEFT JOIN list ON list.id = list LEFT JOIN folder ON folder.id = folder ORDER BY title
                    """
                ) == [expected, #""roses"|"plants"|"garden""#]
            )
            #expect(try device.conflicts().isEmpty)
        }
    }

    @Test(
        "A row that another device moves to another parent meanwhile is with that one",
        arguments: [(10, 20), (20, 10)] as [(UInt64, UInt64)]
    )
    func moved(deleted: UInt64, moved: UInt64) throws {
        let devices = try Self.devices()
        try Self.deleteWork(devices.laptop)
        try devices.laptop.capture(at: deleted)
        try devices.phone.edit("UPDATE note SET folder = 2")
        try devices.phone.capture(at: moved)
        try Self.bring(devices)
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.notes(device) == [#""report"|"garden""#])
            #expect(try device.conflicts().isEmpty)
        }
    }

    @Test(
        "A new row of the deleted row's number has its children on all devices, as in its author's store",
        arguments: [true, false]
    )
    func numberUsedAgain(isAuthor: Bool) throws {
        let devices = try Self.devices()
        try Self.deleteWork(devices.laptop)
        try devices.exchange()
        if isAuthor {
            try devices.laptop.edit("INSERT INTO folder VALUES (2, 'new')")
        } else {
            try devices.phone.edit("INSERT INTO folder VALUES (3, 'new')")
        }
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.notes(device) == [#""report"|"new""#])
            #expect(try device.violations().isEmpty)
        }
    }

    @Test("A row that arrives doesn't get the number of a deleted row to which a reference leads")
    func numberOfArrivingRow() throws {
        let devices = try Self.devices()
        try Self.deleteWork(devices.laptop)
        try devices.exchange()
        let tablet = try SimulatedDevice("tablet", schemaSQL: Self.notes)
        try tablet.edit("INSERT INTO folder VALUES (2, 'attic')")
        try tablet.capture()
        for device in [devices.laptop, devices.phone] {
            try device.integrate(tablet.sets)
            try device.write()
            #expect(try device.capture() == nil)
            #expect(try Self.notes(device) == [#""report"|NULL"#])
        }
    }

    @Test("A new row that refers to a row which was deleted on another device refers to no other row")
    func laterReference() throws {
        let devices = try Self.devices()
        try devices.laptop.edit("UPDATE note SET folder = NULL; DELETE FROM folder WHERE name = 'work'")
        try devices.exchange()
        try devices.laptop.edit("INSERT INTO note VALUES (2, 2, 'letter')", observingForeignKeys: false)
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.notes(device) == [#""letter"|NULL"#, #""report"|NULL"#])
        }
        #expect(try devices.phone.rows("SELECT folder FROM note WHERE title = 'letter'") == ["3"])
    }

    @Test("A deleted row that is restored has its children again")
    func restored() throws {
        let devices = try Self.devices()
        try devices.phone.edit("UPDATE folder SET name = 'office' WHERE name = 'work'")
        try devices.phone.capture(at: 10)
        try Self.deleteWork(devices.laptop)
        try devices.laptop.capture(at: 20)
        try Self.bring(devices)
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.notes(device) == [#""report"|NULL"#])
            #expect(try device.conflicts().map(\.rule) == [.deletedEdited])
        }
        let entry = try #require(try devices.phone.loggedConflicts().first)
        #expect(try devices.phone.restore(entry.number, at: 30))
        try Self.bring(devices)
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.notes(device) == [#""report"|"office""#])
            #expect(try device.violations().isEmpty)
        }
    }

    @Test("A reference to a deleted row stays when all devices have forgotten that row, and for devices that join")
    func forgotten() throws {
        let devices = try Self.devices()
        let (laptop, phone) = (devices.laptop, devices.phone)
        try Self.deleteWork(laptop)
        try devices.exchange()
        let heads = try [laptop, phone].map { try $0.publishHead() }
        for device in [laptop, phone] {
            try device.remember(heads.filter { $0.client != device.client })
            try device.trim()
        }
        #expect(try laptop.content().tombs.isEmpty)
        let tablet = try SimulatedDevice("tablet", joiningFrom: phone)
        #expect(try tablet.capture() == nil)
        try phone.edit("UPDATE note SET title = 'letter'")
        try devices.exchange()
        try tablet.integrate(phone.sets)
        try tablet.write()
        for device in [laptop, phone, tablet] {
            #expect(try Self.notes(device) == [#""letter"|NULL"#])
            #expect(try device.content() == laptop.content())
            #expect(try device.capture() == nil)
        }
    }

    @Test("A restored row that needs a new number doesn't get that of a deleted row to which a reference leads")
    func numberOfRestoredRow() throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO folder VALUES (1, 'home'), (2, 'work'); INSERT INTO note VALUES (1, 2, 'report')")
        try devices.exchange()
        try phone.edit("UPDATE folder SET name = 'flat' WHERE id = 1")
        try phone.capture(at: 10)
        try laptop.edit("DELETE FROM folder WHERE id = 1")
        try laptop.capture(at: 20)
        try Self.bring(devices)
        try Self.deleteWork(laptop)
        try laptop.edit("INSERT INTO folder VALUES (1, 'new')")
        let entry = try #require(try laptop.loggedConflicts().first)
        #expect(try laptop.restore(entry.number, at: 30))
        try Self.bring(devices)
        for device in [laptop, phone] {
            #expect(try Self.notes(device) == [#""report"|NULL"#])
            #expect(try device.rows("SELECT name FROM folder ORDER BY name") == [#""flat""#, #""new""#])
        }
    }

    // MARK: Stores that are taken

    @Test(
        "A row whose parent is gone is one row after both sides are taken, whatever the numbers are",
        arguments: ["UPDATE note SET folder = folder", "UPDATE note SET folder = 7"]
    )
    func taken(edit: String) throws {
        let devices = try Self.devices()
        let (laptop, phone) = (devices.laptop, devices.phone)
        try Self.deleteWork(laptop)
        try devices.exchange()
        try phone.edit(edit, observingForeignKeys: false)
        let number = try phone.rows("SELECT folder FROM note")
        #expect(try phone.capture(taking: .both).isEmpty)
        try phone.write()
        #expect(try phone.capture() == nil)
        #expect(try phone.content() == laptop.content())
        #expect(try phone.rows("SELECT folder FROM note") == number)
        #expect(try phone.conflicts().isEmpty)
    }

    @Test("A row whose parent its taken store lacks is one row, and belongs to the parent again")
    func takenWithoutParent() throws {
        let devices = try Self.devices()
        try Self.deleteWork(devices.phone)
        #expect(try devices.phone.capture(taking: .both).isEmpty)
        try devices.phone.write()
        #expect(try Self.notes(devices.phone) == [#""report"|"work""#])
        #expect(try devices.phone.content() == devices.laptop.content())
    }

    @Test("With --take both, equal rows whose parent is gone are found in steps in proportion to their number")
    func manyEqualRowsTaken() throws {
        func steps(_ count: Int) throws -> Int {
            let devices = try DevicePair(Self.notes)
            let notes = (1...count).map { "(\($0), 1, 'report')" }.joined(separator: ", ")
            try devices.laptop.edit("INSERT INTO folder VALUES (1, 'home'); INSERT INTO note VALUES \(notes)")
            try devices.exchange()
            try devices.laptop.edit("DELETE FROM folder", observingForeignKeys: false)
            try devices.exchange()
            try devices.phone.edit("UPDATE note SET id = id + 2000", observingForeignKeys: false)
            var sets: [SyncChangeSet] = []
            let steps = try devices.phone.replicaSteps(every: 1) { sets = try devices.phone.capture(taking: .both) }
            #expect(sets.isEmpty)
            return steps
        }
        #expect(try steps(800) < 8 * steps(200))
    }

    @Test(
        "Of rows that differ in nothing but their parents, which are gone, each is found in a taken store",
        arguments: [("UPDATE note SET folder = folder + 5", 0), ("UPDATE note SET folder = 7", 1)]
    )
    func takenEqualRows(edit: String, newCount: Int) throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO folder VALUES (1, 'home'), (2, 'work')")
        try laptop.edit("INSERT INTO note VALUES (1, 1, 'report'), (2, 2, 'report')")
        try devices.exchange()
        try laptop.edit("DELETE FROM folder", observingForeignKeys: false)
        try devices.exchange()
        try phone.edit(edit, observingForeignKeys: false)
        #expect(try phone.capture(taking: .both).flatMap(\.changes).count == newCount)
        try phone.write()
        #expect(try phone.capture() == nil)
        #expect(try phone.rows("SELECT title FROM note").count == 2 + newCount)
    }

    @Test("A number of no row stays that number on a device where a row had it whose name no reference has")
    func formerNumber() throws {
        let devices = try Self.devices()
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO folder VALUES (9, 'short-lived')")
        try laptop.capture()
        try laptop.edit("DELETE FROM folder WHERE id = 9")
        try laptop.capture()
        // The phone's store never has the row.
        try Self.bring(devices)
        try phone.edit("INSERT INTO note VALUES (5, 9, 'milk')", observingForeignKeys: false)
        try devices.exchange()
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT folder FROM note WHERE title = 'milk'") == ["9"])
            #expect(try device.content().rows.values.contains { $0.cells["folder"] == .value(.integer(9)) })
        }
    }
}
