import StoreChanges
import Testing

@Suite("The log of a replica", .timeLimit(.minutes(60)))
struct ReplicaLogTests {
    private static let folders = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE SET NULL, title TEXT, body TEXT);
        """

    private static func devices(_ schemaSQL: String = folders) throws -> (
        laptop: SimulatedDevice, phone: SimulatedDevice
    ) {
        let laptop = try SimulatedDevice("laptop", schemaSQL: schemaSQL)
        let phone = try SimulatedDevice("phone", schemaSQL: schemaSQL)
        try exchangeHeads(laptop, phone)
        return (laptop, phone)
    }

    private static func exchangeHeads(_ laptop: SimulatedDevice, _ phone: SimulatedDevice) throws {
        let (first, second) = (try laptop.publishHead(), try phone.publishHead())
        try laptop.remember([second])
        try phone.remember([first])
    }

    /// Captures on one device, and writes on another one.
    @discardableResult
    private static func send(_ sender: SimulatedDevice, _ receiver: SimulatedDevice, at time: UInt64 = 0) throws
        -> SyncChangeSet
    {
        let former = sender.sets.count
        let set = try #require(try sender.capture(at: time))
        try sender.write()
        try receiver.receive(Array(sender.sets.dropFirst(former)))
        return set
    }

    @Test("The last set of each client is found without reading the sets before it")
    func lastSets() throws {
        let (laptop, phone) = try Self.devices()
        try phone.edit("INSERT INTO folder VALUES (1, 'home')")
        try Self.send(phone, laptop)
        for number in 2...100 {
            try laptop.edit("INSERT INTO folder VALUES (\(number), 'folder')")
            try laptop.capture()
        }
        var last: [ClientID: SeenSet] = [:]
        let steps = try laptop.replicaSteps { last = try laptop.integratedSets() }
        #expect(last.mapValues(\.sequence) == [laptop.client: 99, phone.client: 1])
        #expect(steps < 5)
    }

    @Test("The sets that all devices have seen aren't searched each time, however many they are")
    func stableSets() throws {
        func steps(_ count: UInt64) throws -> Int {
            let (laptop, phone) = try Self.devices()
            for number in 1...count {
                try laptop.edit("INSERT INTO folder VALUES (\(number), 'folder')")
                try laptop.capture()
            }
            try laptop.write()
            try phone.receive(laptop.sets)
            try Self.exchangeHeads(laptop, phone)
            try phone.trim()
            #expect(try phone.stable()?.vector[laptop.client]?.sequence == count)
            return try phone.replicaSteps {
                try phone.integrate([])
                try phone.trim()
            }
        }
        // Counted in hundreds.
        #expect(try steps(500) < steps(50) + 12)
    }

    // MARK: Undoing

    @Test("What undoing a second delete of large rows puts back is in several parts, which undo it")
    func undoParts() throws {
        let schema = """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE CASCADE, body TEXT);
            """
        let (laptop, phone) = try Self.devices(schema)
        try laptop.edit(
            """
            INSERT INTO folder VALUES (1, 'home');
            INSERT INTO note VALUES
            (1, 1, hex(zeroblob(600000))), (2, 1, hex(zeroblob(600000))), (3, 1, hex(zeroblob(600000)))
            """
        )
        try Self.send(laptop, phone, at: 1)
        // What a delete deletes by a cascade is in one set with it.
        for device in [laptop, phone] { try device.edit("DELETE FROM folder") }
        try laptop.capture(at: 20)
        let later = try #require(try phone.capture(at: 30))
        let tablet = try SimulatedDevice("tablet", schemaSQL: schema)
        try tablet.edit("INSERT INTO folder VALUES (1, 'work')")
        let earlier = try #require(try tablet.capture(at: 10))
        let former = try laptop.undoPartCount()
        try laptop.integrate([later])
        let deleted = try laptop.content()
        #expect(deleted.tombs.values.map(\.deleters.count) == [2, 2, 2, 2])
        // The deleted rows as they were are in three parts, and the rest is in a fourth.
        #expect(try laptop.undoPartCount() == former + 4)
        // Both deletes are undone and folded again.
        try laptop.integrate([earlier])
        #expect(try laptop.content().tombs == deleted.tombs)
    }

    // MARK: Trimming

    @Test(
        "What every device has seen is forgotten: inserters, former values, and deleted rows with their first deleter"
    )
    func trimming() throws {
        let (laptop, phone) = try Self.devices(
            "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE, color TEXT)"
        )
        try laptop.edit("INSERT INTO tag VALUES (1, 'a', 'red'), (2, 'b', 'blue')")
        try phone.edit("INSERT INTO tag VALUES (1, 'a', 'green')")
        let first = try #require(try laptop.capture())
        let second = try #require(try phone.capture())
        try phone.integrate([first])
        try laptop.receive([second])
        try phone.write()
        try laptop.edit("DELETE FROM tag WHERE name = 'b'")
        try Self.send(laptop, phone)
        let before = try laptop.content()
        #expect(before.aliases.count == 1 && before.tombs.count == 1 && before.rows.values.first?.inserters.count == 2)
        try laptop.trim()
        #expect(try laptop.content() == before, "the phone may not have seen it yet")
        try Self.exchangeHeads(laptop, phone)
        try laptop.trim()
        let after = try laptop.content()
        #expect(after.aliases.isEmpty && after.tombs.isEmpty && after.rows.values.first?.inserters.isEmpty == true)
        #expect(after.rows.mapValues(\.cells) == before.rows.mapValues(\.cells))
    }

    @Test("Of the sets that all devices have seen, only each device's last one keeps its header")
    func headers() throws {
        let (laptop, phone) = try Self.devices()
        for number in 1...3 {
            for (sender, receiver) in [(laptop, phone), (phone, laptop)] {
                try sender.edit("INSERT INTO note (title) VALUES ('\(sender.client.rawValue) \(number)')")
                try Self.send(sender, receiver)
            }
            try Self.exchangeHeads(laptop, phone)
            for device in [laptop, phone] { try device.trim() }
        }
        #expect(try laptop.stable()?.vector.values.map(\.sequence) == [3, 3])
        #expect(try laptop.headerCount() == 2)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        let next = try #require(try laptop.capture())
        #expect(next.header.schemaDescription == nil, "the device's last set has told the schema")
        try phone.integrate([next])
        #expect(try phone.content().rows.count == 7)
    }

    @Test("What a head says that the store has seen holds for later sets, also if it changed nothing in the store")
    func seenWithoutEffect() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try Self.send(laptop, phone)
        for device in [laptop, phone] { try device.edit("UPDATE note SET title = 'bread'") }
        try laptop.capture()
        try laptop.integrate([try #require(try phone.capture())])
        #expect(try laptop.publishHead().seen[phone.client]?.sequence == 1)
        try phone.edit("UPDATE note SET body = 'rye'")
        try laptop.integrate([try #require(try phone.capture())])
        try laptop.edit("INSERT INTO note (title) VALUES ('eggs')")
        #expect(try laptop.capture()?.header.seen[phone.client]?.sequence == 1)
        try laptop.write()
        try laptop.edit("INSERT INTO note (title) VALUES ('butter')")
        #expect(try laptop.capture()?.header.seen[phone.client]?.sequence == 2)
    }

    @Test("A set that replaced more than one part of undo holds is undone and redone whole")
    func undoingInParts() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO folder VALUES (1, 'home')")
        try laptop.edit(
            """
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 60)
            INSERT INTO note SELECT n, 1, 'note ' || n, hex(zeroblob(40000)) FROM numbers
            """
        )
        try Self.send(laptop, phone, at: 10)
        // Belongs before the laptop's edit of the same rows, and arrives after it.
        try phone.edit("UPDATE note SET title = 'of the phone', body = 'short' WHERE id % 3 = 0")
        try phone.edit("DELETE FROM note WHERE id % 5 = 0")
        try phone.capture(at: 20)
        let (early, common) = (phone.sets, laptop.sets)
        try laptop.edit("UPDATE note SET title = 'of the laptop', folder = NULL WHERE id % 2 = 0")
        try laptop.capture(at: 30)
        let late = Array(laptop.sets.dropFirst(common.count))
        let ordered = try SimulatedDevice("tablet", schemaSQL: Self.folders)
        try ordered.integrate(common + early)
        try ordered.integrate(late)
        try laptop.integrate(early)
        try phone.integrate(late)
        let content = try ordered.content()
        #expect(content.rows.count == 1 + 48)
        for device in [laptop, phone] {
            #expect(try device.content() == content)
            #expect(try device.digests() == ordered.digests())
            try device.write()
            #expect(try device.capture() == nil)
        }
        let sql = "SELECT title, length(body) FROM note ORDER BY id"
        #expect(try laptop.rows(sql) == phone.rows(sql))
    }

    @Test("A set that isn't published can be undone, since a copy of the device may publish another one of its number")
    func unpublishedSets() throws {
        let device = try SimulatedDevice("laptop", schemaSQL: Self.folders)
        try device.edit("INSERT INTO folder VALUES (1, 'published')")
        try device.capture(at: 1)
        try device.trim(publishedUpTo: 1)
        let copy = try SimulatedDevice(copying: device)
        try device.edit("INSERT INTO note VALUES (1, 1, 'of the device', NULL)")
        try copy.edit("INSERT INTO note VALUES (1, 1, 'of the copy', NULL)")
        let (own, copied) = (try device.capture(at: 10), try copy.capture(at: 20))
        for device in [device, copy] {
            try device.trim(publishedUpTo: 1)
            #expect(try device.stable()?.vector[device.client]?.sequence == 1)
        }
        // The device's is published, and beyond recall.
        try device.trim(publishedUpTo: 2)
        try copy.integrate([try #require(own)])
        try copy.remember([try device.publishHead()])
        #expect(try copy.hasLostIdentity())
        try copy.become("another")
        let again = try copy.captureVoidSetsAgain(at: 30)
        #expect(again.count == 1 && copied != nil)
        try device.integrate(again)
        #expect(try device.publishHead().voids.isEmpty)
        for device in [device, copy] {
            try device.write()
            #expect(try device.rows("SELECT title FROM note ORDER BY 1") == ["\"of the copy\"", "\"of the device\""])
        }
    }

    @Test(
        "An unpublished set gives way to the set of its number that was published before a restoration",
        arguments: 0..<16
    )
    func restoredDeviceOffline(variant: Int) throws {
        let (laptop, phone) = try Self.devices()
        let restored = try SimulatedDevice(copying: laptop)
        try laptop.edit("INSERT INTO note (title) VALUES ('before the restoration')")
        let published = try #require(try laptop.capture(at: 10))
        // Either digest may be the lesser one.
        try restored.edit("INSERT INTO note (title) VALUES ('after the restoration \(variant)')")
        let captured = try #require(try restored.capture(at: 20))
        #expect(captured.header.id == published.header.id)

        try restored.integrate([published])
        #expect(try restored.hasLostIdentity())
        let joiner = try SimulatedDevice("tablet", joiningFrom: restored)
        try restored.become("another")
        try restored.adopt()
        let again = try restored.captureVoidSetsAgain(at: 30)
        #expect(try !restored.hasLostIdentity())
        for device in [phone, joiner] { try device.integrate([published] + again) }
        for device in [restored, phone, joiner] {
            try device.write()
            let titles = try device.rows("SELECT title FROM note ORDER BY title")
            #expect(titles == ["\"after the restoration \(variant)\"", "\"before the restoration\""])
            #expect(try device.publishHead().voids.isEmpty, "no other device knows it")
            #expect(try device.capture() == nil)
        }
    }

    @Test(
        "What a device hasn't published as its former client, it captures again, and nothing of it names the former set"
    )
    func unpublishedSetsOfFormerClient() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO note (title) VALUES ('unpublished')")
        try laptop.capture(at: 10)
        try laptop.write()
        try laptop.become("another")
        try laptop.adopt()
        let head = try laptop.publishHead()
        try laptop.edit("INSERT INTO note (title) VALUES ('new')")
        let again = try laptop.captureVoidSetsAgain(at: 20)
        let captured = try #require(try laptop.capture(at: 30))
        #expect(head.seen.isEmpty && captured.header.seen.isEmpty)
        try phone.remember([head])
        try phone.integrate(again + [captured])
        for device in [laptop, phone] {
            try device.write()
            #expect(try device.rows("SELECT title FROM note ORDER BY title") == ["\"new\"", "\"unpublished\""])
        }
    }

    @Test("A device doesn't take a set back because of a void one of its number", arguments: 0..<8)
    func voidSetOfSameNumber(variant: Int) throws {
        let (laptop, _) = try Self.devices()
        let copy = try SimulatedDevice(copying: laptop)
        try laptop.edit("INSERT INTO note (title) VALUES ('of the laptop')")
        try laptop.capture(at: 10)
        try laptop.notePublication()
        for number in 1...2 {
            try copy.edit("INSERT INTO note (title) VALUES ('\(number) of the copy, \(variant)')")
            try copy.capture(at: 10 + UInt64(number))
        }
        try laptop.integrate(copy.sets)
        // In some variants, the copy's first set counts.
        guard try !laptop.hasLostIdentity() else { return }
        try laptop.edit("INSERT INTO note (title) VALUES ('later')")
        #expect(try laptop.capture(at: 20)?.header.id.sequence == 2)
        #expect(try !laptop.hasLostIdentity())
    }

    @Test("A row without a key that a void set inserted survives an update of the app")
    func voidRowOfFormerSchema() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE visit (place TEXT)")
        let restored = try SimulatedDevice(copying: laptop)
        try laptop.edit("INSERT INTO visit VALUES ('before the restoration')")
        let published = try #require(try laptop.capture(at: 10))
        try restored.edit("INSERT INTO visit VALUES ('after the restoration')")
        try restored.capture(at: 20)
        for device in [restored, phone] { try device.migrate("ALTER TABLE visit ADD COLUMN stars INTEGER") }
        try restored.integrate([published])
        try restored.become("another")
        try restored.adopt()
        let again = try restored.captureVoidSetsAgain(at: 30)
        try phone.integrate([published] + again)
        for device in [restored, phone] {
            try device.write()
            let places = try device.rows("SELECT * FROM visit ORDER BY place")
            #expect(places == ["\"after the restoration\"|NULL", "\"before the restoration\"|NULL"])
        }
    }

    @Test("Rows without a key that an update of the app changes on both copies of a device are there once")
    func migratedCopies() throws {
        let original = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE visit (place TEXT)")
        try original.edit("INSERT INTO visit VALUES ('market'), ('school')")
        try original.capture(at: 1)
        try original.notePublication()
        let common = original.sets.count
        let copy = try SimulatedDevice(copying: original)
        for (device, place) in [(original, "lake"), (copy, "river")] {
            try device.migrate("ALTER TABLE visit ADD COLUMN day TEXT; UPDATE visit SET day = 'Monday'")
            try device.edit("INSERT INTO visit VALUES ('\(place)', 'Friday')")
            try device.capture(at: 10)
            try device.notePublication()
        }
        let (first, second) = (original.sets.dropFirst(common), copy.sets.dropFirst(common))
        try original.integrate(Array(second))
        try copy.integrate(Array(first))
        let (loser, winner) = try original.hasLostIdentity() ? (original, copy) : (copy, original)
        try loser.become("another")
        try winner.integrate(try loser.captureVoidSetsAgain(at: 30))
        for device in [loser, winner] {
            try device.write()
            let rows = try device.rows("SELECT place FROM visit ORDER BY place").map { $0.replacing("\"", with: "") }
            #expect(rows == ["lake", "market", "river", "school"])
        }
        #expect(try loser.content() == winner.content())
    }

    @Test("Rows without a key that an update of the app changes are there once if they are captured late")
    func lateMigration() throws {
        let laptop = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE visit (place TEXT)")
        let phone = try SimulatedDevice("phone", schemaSQL: "CREATE TABLE visit (place TEXT)")
        try laptop.edit("INSERT INTO visit VALUES ('market'), ('school')")
        try Self.send(laptop, phone, at: 1)
        for (device, place) in [(laptop, "lake"), (phone, "river")] {
            try device.migrate("ALTER TABLE visit ADD COLUMN day TEXT; UPDATE visit SET day = 'Monday'")
            try device.edit("INSERT INTO visit VALUES ('\(place)', 'Friday')")
        }
        let common = laptop.sets.count
        try laptop.capture(at: 10)
        try laptop.write()
        // The laptop doesn't know the phone, so its edits are stable at once.
        try laptop.notePublication()
        try laptop.trim()
        #expect(try laptop.stable() != nil)
        try phone.integrate(Array(laptop.sets.dropFirst(common)))
        try phone.remember([laptop.publishHead()])
        try phone.capture(at: 20)
        try laptop.integrate(phone.sets)
        for device in [laptop, phone] {
            try device.write()
            let rows = try device.rows("SELECT place FROM visit ORDER BY place").map { $0.replacing("\"", with: "") }
            #expect(rows == ["lake", "market", "river", "school"])
        }
        #expect(try laptop.content() == phone.content())
    }

    @Test("Updates and deletes that are captured late count, and what they overwrite is logged")
    func lateEdits() throws {
        let sql = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT); CREATE TABLE visit (place TEXT)"
        let laptop = try SimulatedDevice("laptop", schemaSQL: sql)
        let phone = try SimulatedDevice("phone", schemaSQL: sql)
        try laptop.edit("INSERT INTO note VALUES (1, 'milk', 'a'), (2, 'bread', 'b'), (3, 'tea', 'c')")
        try laptop.edit("INSERT INTO visit VALUES ('market'), ('school')")
        try Self.send(laptop, phone, at: 1)
        let common = laptop.sets.count
        try laptop.edit("UPDATE note SET title = 'oat milk' WHERE id = 1; UPDATE note SET body = 'rye' WHERE id = 2")
        try phone.edit(
            """
            UPDATE note SET title = 'rice milk' WHERE id = 1;
            UPDATE note SET body = 'green' WHERE id = 3;
            DELETE FROM note WHERE id = 2;
            DELETE FROM visit WHERE place = 'school'
            """
        )
        try laptop.capture(at: 10)
        try laptop.write()
        // The laptop doesn't know the phone, so its edits are stable at once.
        try laptop.notePublication()
        try laptop.trim()
        try phone.integrate(Array(laptop.sets.dropFirst(common)))
        try phone.remember([laptop.publishHead()])
        try phone.capture(at: 20)
        try laptop.integrate(phone.sets)
        for device in [laptop, phone] {
            try device.write()
            let notes = try device.rows("SELECT title, body FROM note ORDER BY id").map { $0.replacing("\"", with: "") }
            #expect(notes == ["rice milk|a", "tea|green"])
            #expect(try device.rows("SELECT place FROM visit") == ["\"market\""])
            #expect(Set(try device.conflicts().map(\.rule)) == [.overwritten, .deletedEdited])
        }
        #expect(try laptop.digests().present == phone.digests().present)
    }

    @Test("A copy of a device whose new row is merged into the other copy's keeps its references to it")
    func renamedReferences() throws {
        let original = try SimulatedDevice(
            "laptop",
            schemaSQL: """
                CREATE TABLE folder (id INTEGER PRIMARY KEY, title TEXT UNIQUE);
                CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder, title TEXT);
                CREATE TABLE cover (folder INTEGER PRIMARY KEY REFERENCES folder, image TEXT);
                CREATE TABLE tag (folder INTEGER REFERENCES folder, word TEXT, PRIMARY KEY (folder, word));
                CREATE TABLE visit (folder INTEGER REFERENCES folder, time INTEGER);
                """
        )
        try original.edit("INSERT INTO note VALUES (1, NULL, 'milk')")
        try original.capture(at: 1)
        try original.notePublication()
        let common = original.sets.count
        let copy = try SimulatedDevice(copying: original)
        // All of them have the same names on both.
        for (device, number) in [(original, 1), (copy, 2)] {
            try device.edit(
                """
                INSERT INTO folder VALUES (\(number), 'food');
                UPDATE note SET folder = \(number);
                INSERT INTO cover VALUES (\(number), 'bread');
                INSERT INTO tag VALUES (\(number), 'weekly');
                INSERT INTO visit VALUES (\(number), 1);
                """
            )
            try device.capture(at: 10 + UInt64(number))
            try device.notePublication()
        }
        let (first, second) = (original.sets.dropFirst(common), copy.sets.dropFirst(common))
        try original.integrate(Array(second))
        try copy.integrate(Array(first))
        let (loser, winner) = try original.hasLostIdentity() ? (original, copy) : (copy, original)
        try loser.become("another")
        // Another row has the number by then.
        try winner.integrate(try loser.captureVoidSetsAgain(at: 30))
        for device in [loser, winner] {
            try device.write()
            #expect(try device.violations().isEmpty)
            #expect(try device.capture() == nil)
            let rows = try device.rows(
                """
                SELECT note.title, image, word, time, folder.title FROM folder
                JOIN note ON note.folder = folder.id JOIN cover ON cover.folder = folder.id JOIN tag ON tag.folder = folder.id
                JOIN visit ON visit.folder = folder.id
                """
            )
            #expect(rows == Array(repeating: "\"milk\"|\"bread\"|\"weekly\"|1|\"food\"", count: 2), "two visits")
        }
        #expect(try loser.content() == winner.content())
    }

    @Test("A reference in another spelling stays as it is, whether the merge of both spellings is trimmed or not")
    func spellings() throws {
        let (laptop, phone) = try Self.devices(
            """
            CREATE TABLE country (code TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, name TEXT);
            CREATE TABLE city (id INTEGER PRIMARY KEY, country TEXT REFERENCES country, name TEXT);
            """
        )
        try laptop.edit("INSERT INTO country VALUES ('a', 'of the laptop')")
        try phone.edit("INSERT INTO country VALUES ('A', 'of the phone')")
        let (first, second) = (try laptop.capture(at: 1), try phone.capture(at: 2))
        try laptop.integrate([try #require(second)])
        try phone.integrate([try #require(first)])
        for device in [laptop, phone] { try device.write() }
        #expect(try phone.content().aliases.count == 1)
        try Self.exchangeHeads(laptop, phone)
        try laptop.trim()
        #expect(try laptop.content().aliases.isEmpty)
        try phone.edit("DELETE FROM country")
        try laptop.edit("INSERT INTO city VALUES (1, 'A', 'Aarhus')")
        let (delete, insert) = (try phone.capture(at: 10), try laptop.capture(at: 20))
        try laptop.integrate([try #require(delete)])
        try phone.integrate([try #require(insert)])
        for device in [laptop, phone] {
            try device.write()
            #expect(try device.rows("SELECT country, city.name, code FROM city, country") == ["\"A\"|\"Aarhus\"|\"a\""])
        }
        #expect(try laptop.digests().present == phone.digests().present)
    }

    @Test("A set that is undone over a trimmed prefix doesn't put back what was forgotten")
    func undoingAfterTrimming() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT)")
        try laptop.edit("INSERT INTO tag VALUES ('a', 'red'), ('b', 'red')")
        try Self.send(laptop, phone, at: 10)
        try laptop.edit("DELETE FROM tag WHERE name = 'a'")
        try Self.send(laptop, phone, at: 20)
        try Self.exchangeHeads(laptop, phone)
        try laptop.edit("INSERT INTO tag VALUES ('a', 'blue')")
        try laptop.edit("UPDATE tag SET color = 'blue' WHERE name = 'b'")
        // The set's undo image has the deleted row and its inserters.
        try laptop.capture(at: 40)
        try laptop.trim()
        #expect(try laptop.stable()?.position.id.sequence == 2)
        try phone.edit("UPDATE tag SET color = 'green' WHERE name = 'b'")
        let earlier = try #require(try phone.capture(at: 30))
        try laptop.integrate([earlier])
        try phone.integrate(Array(laptop.sets.suffix(1)))
        let content = try laptop.content()
        #expect(content.tombs.isEmpty && content.rows.count == 2)
        #expect(Set(content.rows.values.flatMap(\.inserters)) == [SetID(laptop.client, 3)])
        let expected = try phone.content().trimmed(try laptop.stable())
        #expect(content == expected)
    }

    @Test("Of several inserters only the stable ones go")
    func trimmingOfInserters() {
        let (first, second) = (TestLog.set("A", at: 1), TestLog.set("B", at: 2))
        var row = RowState(cells: [:], inserters: [first.header.id, second.header.id])
        let isTrimmed = row.inserters.trim(TestLog.prefix(first))
        #expect(isTrimmed && row.inserters == [second.header.id])
        let isTrimmedAgain = row.inserters.trim(TestLog.prefix(first))
        #expect(!isTrimmedAgain)
    }

    @Test("A former value stays while the set isn't stable that made it lead to its row")
    func trimmingOfAliases() throws {
        let (laptop, phone) = try Self.devices(
            """
            CREATE TABLE user (id INTEGER PRIMARY KEY, mail TEXT UNIQUE);
            CREATE TABLE message (id INTEGER PRIMARY KEY, sender TEXT REFERENCES user (mail) ON UPDATE CASCADE);
            """
        )
        try laptop.edit("INSERT INTO user VALUES (1, 'a')")
        try laptop.edit("INSERT INTO user VALUES (2, 'b')")
        try Self.send(laptop, phone, at: 10)
        try laptop.edit("UPDATE user SET mail = 'c' WHERE id = 1")
        try Self.send(laptop, phone, at: 20)
        try phone.write()
        try Self.exchangeHeads(laptop, phone)
        // The former value 'a' leads to the first user, then to the second one.
        try laptop.edit("UPDATE user SET mail = 'a' WHERE id = 2")
        try laptop.capture(at: 30)
        try laptop.edit("UPDATE user SET mail = 'd' WHERE id = 2")
        let last = try #require(try laptop.capture(at: 40))
        try laptop.trim()
        #expect(try laptop.stable()?.position.id.sequence == 2)
        let aliases = try laptop.content().aliases
        #expect(aliases.values.contains { $0.maker == last.header.id })
        let former = AliasKey(table: "user", columns: ["mail"], cells: [.value(.text("a"))])
        #expect(aliases[former]?.maker == last.header.id)
    }

    // MARK: Digests

    @Test("The digest follows each change, is equal on all devices, and comes back when a set is undone")
    func digests() throws {
        let (laptop, phone) = try Self.devices()
        #expect(try laptop.digests().present == .empty)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk'), ('milk')")
        try Self.send(laptop, phone, at: 10)
        let common = try laptop.digests().present
        let computed = try phone.digest(of: try phone.content())
        #expect(common != .empty && common == computed)
        try laptop.edit("UPDATE note SET body = 'two litres' WHERE id = 1")
        try phone.edit("UPDATE note SET title = 'bread' WHERE id = 1")
        try phone.edit("DELETE FROM note WHERE id = 2")
        let late = try #require(try laptop.capture(at: 20))
        let early = try #require(try phone.capture(at: 15))
        #expect(try laptop.digests().present != phone.digests().present)
        try laptop.integrate([early])
        try phone.integrate([late])
        for device in [laptop, phone] {
            let computed = try device.digest(of: try device.content())
            #expect(try device.digests().present == computed)
        }
        #expect(try laptop.digests().present == phone.digests().present)
        try phone.edit("UPDATE note SET title = 'milk', body = NULL WHERE id = 1")
        try phone.edit("INSERT INTO note (title) VALUES ('milk')")
        #expect(try phone.digest(of: StateContent()) == .empty)
    }

    @Test("Rows without a key count in the digest as often as they occur, and another key gives another digest")
    func digestOfCounts() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE line (a TEXT)")
        try laptop.edit("INSERT INTO line VALUES ('x'), ('x')")
        try phone.edit("INSERT INTO line VALUES ('x')")
        try laptop.capture()
        try phone.capture()
        #expect(try laptop.digests().present != phone.digests().present)
        try phone.edit("INSERT INTO line VALUES ('x')")
        try phone.capture()
        #expect(try laptop.digests().present == phone.digests().present)
        let (content, schema) = (try laptop.content(), FoldSchema(laptop.schema))
        let digests = ["notes", "other"].map { StateDigest(of: content, schema, StateDigest.Key($0)) }
        #expect(digests[0] != digests[1])
    }

    // MARK: Void sets

    @Test("The edits of a removed device come back as those of a new client, without references to rows that are gone")
    func removedDevice() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO folder VALUES (1, 'home'), (2, 'work')")
        try laptop.edit("INSERT INTO note VALUES (1, 2, 'milk', 'one'), (2, 2, 'bread', 'one')")
        try Self.send(laptop, phone)
        try phone.edit("INSERT INTO note VALUES (3, 1, 'eggs', 'six')")
        try phone.edit("UPDATE note SET folder = 1, title = 'oat milk' WHERE id = 1")
        try phone.edit("DELETE FROM note WHERE id = 2")
        try phone.capture()
        let unread = phone.sets
        try phone.write()
        let removals = [phone.client: UInt64(0)]
        try laptop.remember([], removals: removals)
        try laptop.edit("DELETE FROM folder WHERE id = 1")
        try laptop.edit("UPDATE note SET title = 'soy milk' WHERE id = 1")
        let meanwhile = try #require(try laptop.capture())
        try laptop.integrate(unread)
        #expect(try laptop.rows("SELECT title FROM note ORDER BY id") == ["\"soy milk\"", "\"bread\""])
        #expect(try laptop.publishHead().voids.map(\.set.id) == unread.map(\.header.id))

        try phone.integrate([meanwhile])
        try phone.remember([], removals: removals)
        #expect(try phone.hasLostIdentity())
        #expect(try phone.captureVoidSetsAgain().isEmpty, "new sets of the removed client wouldn't count")
        try phone.become("tablet")
        #expect(try !phone.hasLostIdentity())
        let again = try #require(try phone.captureVoidSetsAgain().first)
        #expect(again.header.id == SetID(phone.client, 1))
        #expect(again.header.seen[laptop.client]?.sequence == UInt64(laptop.sets.count))
        #expect(try phone.captureVoidSetsAgain().isEmpty, "once")
        try phone.write()
        try laptop.receive([again])
        for device in [laptop, phone] {
            let rows = try device.rows("SELECT folder, title FROM note ORDER BY title")
            #expect(rows == ["NULL|\"eggs\"", "2|\"oat milk\""])
            #expect(try device.capture() == nil)
        }
        #expect(
            try laptop.conflicts().contains { $0.rule == .overwritten && $0.lost["title"] == .value(.text("soy milk")) }
        )
    }

    @Test("A device that was restored from a backup keeps publishing its former head's prefix, so no edit is lost")
    func restoredDevice() throws {
        let laptop = try SimulatedDevice("laptop", schemaSQL: Self.folders)
        let phone = try SimulatedDevice("phone", schemaSQL: Self.folders)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        let first = try #require(try laptop.capture(at: 10))
        try laptop.write()
        let restored = try SimulatedDevice(copying: laptop)
        // No other device is known yet.
        try laptop.trim()
        let former = try laptop.publishHead()
        let prefix = try #require(former.stable)
        try restored.remember([former])
        let head = try restored.publishHead()
        #expect(head.stable == prefix)

        // The phone reads only the later head. It hadn't read the first set, so its own one is void for both.
        try phone.edit("INSERT INTO note (title) VALUES ('bread')")
        let late = try #require(try phone.capture(at: 20))
        try phone.notePublication()
        try phone.integrate([first])
        try phone.remember([head])
        try restored.integrate([late])
        #expect(try phone.hasLostIdentity())
        try phone.become("tablet")
        try restored.integrate(try phone.captureVoidSetsAgain(at: 30))
        for device in [restored, phone] {
            try device.write()
            #expect(try device.rows("SELECT title FROM note ORDER BY title") == ["\"bread\"", "\"milk\""])
        }
    }

    @Test(
        "A set that doesn't count and that no other device knows is captured again by the same client, under its number"
    )
    func lateSet() throws {
        let laptop = try SimulatedDevice("laptop", schemaSQL: Self.folders)
        let phone = try SimulatedDevice("phone", schemaSQL: Self.folders)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        let first = try #require(try laptop.capture(at: 10))
        try laptop.write()
        try laptop.trim()
        let head = try laptop.publishHead()
        #expect(head.stable != nil)
        try phone.edit("INSERT INTO note (title) VALUES ('bread')")
        let late = try #require(try phone.capture(at: 20))
        try phone.integrate([first])
        try phone.remember([head])
        #expect(try !phone.counts(late) && !phone.hasLostIdentity())
        let again = try phone.captureVoidSetsAgain(at: 30)
        #expect(again.map(\.header.id) == [late.header.id] && again != [late])
        #expect(try phone.captureVoidSetsAgain(at: 40).isEmpty, "once")
        try laptop.integrate(again)
        for device in [laptop, phone] {
            try device.write()
            #expect(try device.rows("SELECT title FROM note ORDER BY title") == ["\"bread\"", "\"milk\""])
            #expect(try device.capture() == nil)
        }
    }

    @Test("A row with NULL in its key comes back too")
    func removedDeviceWithoutKeys() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE pair (a TEXT, b TEXT, c TEXT, PRIMARY KEY (a, b))")
        try phone.edit("INSERT INTO pair VALUES (NULL, 'x', 'y')")
        try phone.capture()
        try phone.write()
        for device in [laptop, phone] { try device.remember([], removals: [ClientID(rawValue: "phone"): 0]) }
        try phone.become("tablet")
        try laptop.receive(try phone.captureVoidSetsAgain())
        #expect(try laptop.rows("SELECT * FROM pair") == phone.rows("SELECT * FROM pair"))
        #expect(try laptop.content().counts.count == 1)
    }

    @Test("Sets that were integrated are undone when they turn out to be void, and their conflicts go")
    func lateRemoval() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        try Self.send(laptop, phone)
        try laptop.edit("UPDATE note SET title = 'oat milk'")
        try phone.edit("UPDATE note SET title = 'soy milk'")
        try laptop.capture(at: 10)
        let void = try #require(try phone.capture(at: 20))
        try laptop.integrate([void])
        #expect(try laptop.conflicts().map(\.rule) == [.overwritten])
        try laptop.remember([], removals: [phone.client: 0])
        #expect(try laptop.conflicts().isEmpty)
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note") == ["\"oat milk\""])
        #expect(try laptop.capture() == nil)
        // Another device had read more of the phone before it wrote its note.
        try laptop.remember([], removals: [phone.client: 1])
        #expect(try laptop.conflicts().map(\.rule) == [.overwritten])
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note") == ["\"soy milk\""])
    }

    @Test("A delete by a device that had read only the copy of a set doesn't delete what the set inserted")
    func seenOfCopy() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT)")
        let copy = try SimulatedDevice(copying: laptop)
        try laptop.edit("INSERT INTO tag VALUES ('a', 'red')")
        try copy.edit("INSERT INTO tag VALUES ('a', 'blue')")
        let sets = [try #require(try laptop.capture(at: 1)), try #require(try copy.capture(at: 2))]
        let sorted = sets.sorted {
            SetDigest(of: $0.encoded).rawValue.lexicographicallyPrecedes(SetDigest(of: $1.encoded).rawValue)
        }
        try phone.receive([sorted[1]])
        try phone.edit("DELETE FROM tag")
        let delete = try #require(try phone.capture(at: 3))
        for device in [laptop, copy, phone] {
            try device.integrate(sets + [delete])
            #expect(try device.content().rows.count == 1)
            #expect(try device.conflicts().map(\.rule) == [.deleteRefused])
        }
    }

    // MARK: Conflicts

    @Test("An entry of the conflict log says who changed the row on both sides, and when")
    func authors() throws {
        let (laptop, phone) = try Self.devices()
        try laptop.edit("INSERT INTO note (id, title, body) VALUES (1, 'milk', 'a'), (2, 'bread', 'b')")
        try Self.send(laptop, phone, at: 100)
        try laptop.edit("UPDATE note SET title = 'oat milk' WHERE id = 1")
        try laptop.edit("UPDATE note SET title = 'rye bread' WHERE id = 2")
        let first = try #require(try laptop.capture(at: 200))
        try laptop.edit("UPDATE note SET body = 'c' WHERE id = 1")
        let second = try #require(try laptop.capture(at: 300))
        try phone.edit("UPDATE note SET title = 'soy milk' WHERE id = 1")
        try phone.edit("DELETE FROM note WHERE id = 2")
        let third = try #require(try phone.capture(at: 400))
        try laptop.integrate([third])
        try phone.integrate([second, first])
        let author = ChangeAuthor(third.header.id, at: Stamp(rawValue: 400))
        // The set with the title, not the later one with the body.
        let other = ChangeAuthor(first.header.id, at: Stamp(rawValue: 200))
        for device in [laptop, phone] {
            let entries = try device.loggedConflicts()
            #expect(Set(entries.map(\.conflict.rule)) == [.overwritten, .deletedEdited])
            #expect(entries.allSatisfy { $0.author == author && $0.other == other })
        }
    }

    @Test("The other side of a row that was merged when it arrived is the author of the row that stays")
    func authorsOfMerge() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        try laptop.edit("INSERT INTO tag (name) VALUES ('a')")
        try phone.edit("INSERT INTO tag (name) VALUES ('a')")
        let first = try #require(try laptop.capture(at: 10))
        let second = try #require(try phone.capture(at: 20))
        try laptop.integrate([second])
        let entry = try #require(try laptop.loggedConflicts().first)
        #expect(entry.conflict.rule == .merged)
        #expect(entry.author.set == second.header.id && entry.other?.set == first.header.id)
    }

    @Test("The other side of each row that a set merges is the author of the row that stays for it")
    func authorsOfMerges() throws {
        let (laptop, phone) = try Self.devices("CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        for (index, name) in ["a", "b", "c"].enumerated() {
            try laptop.edit("INSERT INTO tag (name) VALUES ('\(name)')")
            try laptop.capture(at: UInt64(10 + index))
        }
        try phone.edit("INSERT INTO tag (name) VALUES ('c'), ('b'), ('a')")
        try laptop.integrate([try #require(try phone.capture(at: 20))])
        let entries = try laptop.loggedConflicts()
        #expect(entries.map(\.conflict.rule) == [.merged, .merged, .merged])
        #expect(
            Dictionary(grouping: entries) { $0.conflict.lost["name"] }.mapValues { $0.map(\.other?.set.sequence) }
                == [.value(.text("a")): [1], .value(.text("b")): [2], .value(.text("c")): [3]]
        )
    }

    @Test("What happened can be said of every rule in a few words", arguments: Conflict.Rule.allCases)
    func summaries(rule: Conflict.Rule) {
        #expect(!rule.summary.isEmpty && rule.summary.count < 80 && !rule.summary.hasSuffix("."))
    }
}
