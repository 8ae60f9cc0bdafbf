import GRDB
import OperationsTesting
import TestSupport
import Testing

@testable import StoreChanges

/// Small pages, so that few rows need many.
private let pageSize = 512
/// A name of a device that doesn't divide its captures.
private let name = "desk"

@Suite("Comparing only the rows of changed pages", .timeLimit(.minutes(60)))
struct PageTests {
    /// Twins: two devices with the same name and the same app, of which one forgets the pages before every capture.
    private struct Twins {
        private let quick: SimulatedDevice
        private let thorough: SimulatedDevice
        private var log: [String] = []
        var schema: StoreSchema { quick.schema }

        init(_ schemaSQL: String) throws {
            quick = try SimulatedDevice(name, schemaSQL: schemaSQL, pageSize: pageSize)
            thorough = try SimulatedDevice(name, schemaSQL: schemaSQL, pageSize: pageSize)
        }

        mutating func edit(_ sql: String, observingForeignKeys: Bool = true) throws {
            guard try quick.edit(sql, observingForeignKeys: observingForeignKeys) else { return }
            try thorough.edit(sql, observingForeignKeys: observingForeignKeys)
            log.append(sql)
        }

        mutating func receive(_ set: SyncChangeSet) throws {
            for device in [quick, thorough] {
                try device.integrate([set])
                try device.capture()
                try device.write()
            }
            log.append("\(set.header.id) arrives")
        }

        /// Captures on both devices, and checks that they find the same.
        mutating func capture(_ comment: String) throws {
            try thorough.forgetPages()
            let (found, all) = (try quick.capture(), try thorough.capture())
            let (foundChanges, allChanges) = (Set(found?.changes ?? []), Set(all?.changes ?? []))
            #expect(
                foundChanges == allChanges,
                "\(comment)\n\(log.joined(separator: "\n"))"
            )
            log.append("captured")
        }
    }

    @Test(
        "Comparing the rows of changed pages finds what comparing all rows finds, whatever the app writes",
        arguments: 0..<SimulatedSchemas.all.count
    )
    func random(index: Int) throws {
        let rows = TestDepth.choose(quick: 120, deep: 300)
        for seed in TestDepth.seeds(quick: 1, deep: 2_000) {
            var random = SplitMix64(seed: seed &* 100 &+ UInt64(index))
            let schemaSQL = SimulatedSchemas.all[index]
            var twins = try Twins(schemaSQL)
            let phone = try SimulatedDevice("phone", schemaSQL: schemaSQL, pageSize: pageSize)
            // Parents may come after their children.
            for table in twins.schema.tables + twins.schema.tables {
                try twins.edit(RandomEdits.filling(table, count: rows))
            }
            let edits = RandomEdits(twins.schema, reach: rows / 2)
            let observesForeignKeys = random.chance(70)
            for round in 0..<rows / 30 {
                for _ in 0..<Int.random(in: 0..<5, using: &random) {
                    try twins.edit(edits.statement(using: &random), observingForeignKeys: observesForeignKeys)
                }
                try twins.capture("seed \(seed), round \(round)")
                guard random.chance(30) else { continue }
                for _ in 0..<3 { try phone.edit(edits.statement(using: &random)) }
                if let set = try phone.capture() { try twins.receive(set) }
            }
        }
    }

    private static let notes = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder, title TEXT, body BLOB);
        """

    private func device(pageSize: Int = pageSize) throws -> SimulatedDevice {
        let device = try SimulatedDevice(name, schemaSQL: Self.notes, pageSize: pageSize)
        for table in ["folder", "note"] {
            let table = try #require(device.schema.tables.first { $0.name == table })
            #expect(try device.edit(RandomEdits.filling(table, count: 300)))
        }
        try device.capture()
        return device
    }

    @Test("After one edit the rows of one page are compared, and nothing of other tables")
    func onePage() throws {
        let device = try device()
        #expect(try device.changes(of: "note") == .ranges([], leafCount: 0))
        try device.edit("UPDATE note SET title = 'milk' WHERE id = 100")
        guard case .ranges(let ranges, 1) = try device.changes(of: "note") else {
            Issue.record("\(String(describing: try device.changes(of: "note")))")
            return
        }
        #expect(ranges.count == 1 && ranges[0].contains(100) && ranges[0].count < 40)
        #expect(try device.isMostlyUnchanged() == true)
        #expect(try device.changes(of: "folder") == .ranges([], leafCount: 0))
        #expect(try device.capture()?.changes.count == 1)
        #expect(try device.changes(of: "note") == .ranges([], leafCount: 0))
    }

    @Test("The rows of one page are compared, wherever in a large store it is")
    func largeStore() throws {
        let device = try device(pageSize: 4_096)
        #expect(
            try device.edit(
                """
                WITH RECURSIVE numbers (n) AS (SELECT 1001 UNION ALL SELECT n + 1 FROM numbers LIMIT 40)
                INSERT INTO note (id, title, body) SELECT n, 'note', zeroblob(100000) FROM numbers
                """
            )
        )
        try device.capture()
        for number in [1001, 1010, 1020, 1030, 1040] {
            // Only the last page of the content differs.
            try device.edit(
                "UPDATE note SET body = CAST(substr(body, 1, 99999) || x'01' AS BLOB) WHERE id = \(number)"
            )
            guard case .ranges(let ranges, 1) = try device.changes(of: "note") else {
                Issue.record("\(number): \(String(describing: try device.changes(of: "note")))")
                return
            }
            #expect(ranges.count == 1 && ranges[0].contains(Int64(number)))
            #expect(try device.capture()?.changes.count == 1)
        }
    }

    @Test("A change in content that has no room in its row's page is found")
    func overflow() throws {
        let device = try device()
        try device.edit("UPDATE note SET body = zeroblob(9000) WHERE id = 100")
        try device.capture()
        // SQLite writes the one page that differs, and leaves the row's own as it is.
        try device.edit("UPDATE note SET body = CAST(zeroblob(7000) || x'01' || zeroblob(1999) AS BLOB) WHERE id = 100")
        guard case .ranges(_, 1) = try device.changes(of: "note") else {
            Issue.record("\(String(describing: try device.changes(of: "note")))")
            return
        }
        #expect(try device.capture()?.changes.count == 1)
    }

    @Test(
        "A damaged record of the pages is none, whatever is left of it: every edit is found",
        arguments: TestDepth.seeds(quick: 10, deep: 2_000)
    )
    func damagedRecord(seed: UInt64) throws {
        let device = try device()
        var random = SplitMix64(seed: seed)
        try device.damagePages(using: &random)
        try device.edit("UPDATE note SET title = 'milk' WHERE id = 100")
        try device.edit("DELETE FROM note WHERE id = 250")
        #expect(try device.capture()?.changes.count == 2)
        #expect(try device.capture() == nil)
        #expect(try device.changes(of: "note") == .ranges([], leafCount: 0))
    }

    @Test("Pages may move, and if the schema changes, all rows are compared")
    func rewritten() throws {
        let device = try device()
        try device.edit("DELETE FROM folder WHERE id BETWEEN 20 AND 100", observingForeignKeys: false)
        try device.capture()
        try device.store.vacuum()
        #expect(try device.capture() == nil)
        #expect(try device.changes(of: "note") == .ranges([], leafCount: 0))
        #expect(try device.isMostlyUnchanged() == true)
        try device.edit("CREATE INDEX by_title ON note (title)")
        #expect(try device.isMostlyUnchanged() == false)
        #expect(try device.changes(of: "note") == .all)
    }

    @Test("More than half of a table's rows may be gone from few of its pages, and that isn't taken for edits")
    func massDeletion() throws {
        let device = try SimulatedDevice(name, schemaSQL: Self.notes, pageSize: pageSize)
        let table = try #require(device.schema.tables.first { $0.name == "folder" })
        try device.edit(RandomEdits.filling(table, count: 200))
        try device.edit("UPDATE folder SET name = hex(zeroblob(180)) WHERE id > 160")
        try device.capture()
        try device.edit("DELETE FROM folder WHERE id < 140")
        try expectRanges(of: "folder", in: device)
        #expect { try device.capture(allowsDeletions: false) } throws: { error in
            (error as? StoreChangesError)?.code == .massDeletion
        }
        #expect(try device.capture()?.changes.count == 130)
    }

    /// Checks that only rows of changed pages will be compared.
    private func expectRanges(
        of table: String,
        in device: SimulatedDevice,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let changes = try device.changes(of: table)
        guard case .ranges = changes else {
            Issue.record("\(String(describing: changes))", sourceLocation: sourceLocation)
            return
        }
    }

    @Test("Rows that are gone are found among the new rows of their page", arguments: [1, 2, 3])
    func replacedRows(count: Int) throws {
        let device = try SimulatedDevice(name, schemaSQL: Self.notes, pageSize: pageSize)
        try device.edit(
            """
            WITH RECURSIVE numbers (n) AS (SELECT 10 UNION ALL SELECT n + 10 FROM numbers LIMIT 1000)
            INSERT INTO note (id, title) SELECT n, 'text ' || n FROM numbers
            """
        )
        try device.capture()
        try device.edit("DELETE FROM note WHERE id BETWEEN 1010 AND \(1000 + 10 * count)")
        try device.edit("INSERT INTO note (id, title) VALUES (1005, 'milk'), (1015, 'bread')")
        try expectRanges(of: "note", in: device)
        let changes = try #require(try device.capture()).changes
        let deletes = changes.count { if case .delete = $0.edit { true } else { false } }
        #expect(deletes == count && changes.count == count + 2)
        #expect(try device.capture() == nil)
    }

    @Test("A row that got the number of a deleted one is another row")
    func reusedNumber() throws {
        let device = try device()
        try device.edit("DELETE FROM note WHERE id = 309")
        try device.edit("INSERT INTO note (folder, title, body) VALUES (20, 'milk', 'two')")
        try expectRanges(of: "note", in: device)
        let changes = try #require(try device.capture()).changes
        #expect(changes.count == 2 && Set(changes.map(\.row)).count == 2)
    }

    @Test("A row that the user deletes before another device's delete is written is found")
    func deletedTwice() throws {
        let (laptop, phone) = (try device(), try SimulatedDevice("phone", schemaSQL: Self.notes, pageSize: pageSize))
        try phone.receive(laptop.sets)
        try phone.capture()
        try phone.edit("DELETE FROM note WHERE id = 100")
        try laptop.integrate([try #require(try phone.capture())])
        try laptop.edit("DELETE FROM note WHERE id = 100")
        try expectRanges(of: "note", in: laptop)
        #expect(try laptop.capture()?.changes.count == 1)
    }

    @Test("A row that was captured without reading pages, and has its former value again, is found")
    func pagesNotRead() throws {
        let device = try device()
        try device.edit("UPDATE note SET title = 'text 101' WHERE id = 100")
        #expect(try device.capture(readsPages: false)?.changes.count == 1)
        try device.edit("UPDATE note SET title = 'text 100' WHERE id = 100")
        #expect(try device.capture()?.changes.count == 1)
    }

    @Test(
        "What another device wrote and the user puts back before the next capture is found",
        arguments: [
            ("UPDATE note SET title = 'milk' WHERE id = 100", "UPDATE note SET title = 'text 100' WHERE id = 100"),
            ("DELETE FROM note WHERE id = 100", "INSERT INTO note SELECT * FROM saved"),
            ("INSERT INTO note (id, title) VALUES (900, 'milk')", "DELETE FROM note WHERE id = 900"),
            ("UPDATE tag SET color = 'red' WHERE name = 'text 70'", "UPDATE tag SET color = name WHERE color = 'red'"),
            ("INSERT INTO line VALUES ('milk', 1)", "DELETE FROM line WHERE a = 'milk'"),
        ]
    )
    func putBack(theirs: String, users: String) throws {
        let schema =
            Self.notes + "CREATE TABLE tag (name TEXT PRIMARY KEY, color TEXT); CREATE TABLE line (a TEXT, b INT)"
        let laptop = try SimulatedDevice(name, schemaSQL: schema, pageSize: pageSize)
        let phone = try SimulatedDevice("phone", schemaSQL: schema, pageSize: pageSize)
        for table in ["folder", "note", "tag", "line"] {
            let table = try #require(laptop.schema.tables.first { $0.name == table })
            #expect(try laptop.edit(RandomEdits.filling(table, count: 120)))
        }
        try laptop.edit("CREATE TEMP TABLE saved AS SELECT * FROM note WHERE id = 100")
        try laptop.capture()
        try phone.receive(laptop.sets)
        try phone.capture()
        try phone.edit(theirs)
        try laptop.integrate([try #require(try phone.capture())])
        #expect(try laptop.capture() == nil)
        let counts = try laptop.write()
        #expect(counts.count == 1)
        try laptop.edit(users)
        #expect(try laptop.capture()?.changes.count == 1)
        #expect(try laptop.capture() == nil)
    }

    @Test("A deletion of a row with a page of its own is captured after another device's edit of the row was written")
    func deletedAlone() throws {
        let laptop = try SimulatedDevice(name, schemaSQL: Self.notes, pageSize: pageSize)
        let phone = try SimulatedDevice("phone", schemaSQL: Self.notes, pageSize: pageSize)
        try laptop.edit(
            """
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 60)
            INSERT INTO note (id, title) SELECT n, printf('%04d%300c', n, 'x') FROM numbers
            """
        )
        try laptop.capture()
        try phone.receive(laptop.sets)
        for number in [20, 30, 40] {
            try phone.edit("UPDATE note SET title = 'milk' WHERE id = (SELECT id FROM note LIMIT 1 OFFSET \(number))")
            try laptop.receive([try #require(try phone.capture())])
            try laptop.edit("DELETE FROM note WHERE title = 'milk'")
            #expect(try laptop.capture()?.changes.count == 1)
            try phone.receive(laptop.sets)
            try phone.capture()
        }
    }

    @Test("A transaction that writes has no pages to be read")
    func writing() throws {
        let device = try device()
        try device.store.write { db in
            try db.execute(sql: "UPDATE note SET title = 'milk' WHERE id = 100")
            let pages = try device.pages(of: db)
            #expect(pages == nil)
        }
    }

    @Test("A leaf that has got the rows of a neighbour that is gone is compared")
    func neighbour() {
        var former = TableLeaves()
        for (upper, hash) in [(10, 1), (20, 2), (.max, 3)] as [(Int64, UInt64)] { former.append(upTo: upper, hash) }
        var present = TableLeaves()
        for upper in [20, 30, 40, 50, 60, .max] as [Int64] { present.append(upTo: upper, upper == 20 ? 2 : 3) }
        #expect(present.changes(since: former) == .all)
        var many = TableLeaves()
        for upper in stride(from: 10, to: 100, by: 10) as StrideTo<Int64> { many.append(upTo: upper, UInt64(upper)) }
        var fewer = TableLeaves()
        for upper in stride(from: 10, to: 100, by: 10) as StrideTo<Int64> where upper != 50 {
            fewer.append(upTo: upper, UInt64(upper))
        }
        #expect(fewer.changes(since: many) == .ranges([41...60], leafCount: 1))
        #expect(many.changes(since: fewer) == .ranges([41...60], leafCount: 2))
        // Also if the former neighbour was forgotten, once or twice.
        for _ in 0..<2 {
            many.forget([45])
            #expect(fewer.changes(since: many) == .ranges([41...60], leafCount: 1))
        }
    }

    @Test("Any bytes can be asked for being a page")
    func fuzzed() {
        var random = SplitMix64(seed: 1)
        for _ in 0..<TestDepth.choose(quick: 2_000, ci: 5_000, deep: 1_000_000) {
            var bytes = (0..<512).map { _ in random.chance(50) ? 0 : UInt8.random(in: .min ... .max, using: &random) }
            bytes[0] = [2, 5, 10, 13].randomElement(using: &random) ?? 0
            bytes.withUnsafeBytes { bytes in
                let page = TreePage(bytes, numbered: 2, usableSize: 500)
                _ = (page?.children, page?.overflowPages)
            }
        }
    }

    @Test("Trees with circles and pages that don't exist are told from others")
    func brokenTrees() throws {
        var random = SplitMix64(seed: 1)
        var (trees, others) = (0, 0)
        for _ in 0..<TestDepth.choose(quick: 200, ci: 500, deep: 100_000) {
            let pages = StorePages(
                pageSize: 512,
                pages: (0..<20).map { _ in
                    var bytes = [UInt8](repeating: 0, count: 512)
                    bytes[0] = [5, 13].randomElement(using: &random) ?? 0
                    bytes[4] = UInt8.random(in: 0...3, using: &random)
                    bytes[11] = UInt8.random(in: 0...25, using: &random)
                    for cell in 0..<3 {
                        bytes[12 + 2 * cell + 1] = UInt8(100 + 10 * cell)
                        bytes[100 + 10 * cell + 3] = UInt8.random(in: 0...25, using: &random)
                        bytes[100 + 10 * cell + 4] = UInt8(10 * cell + 1)
                    }
                    return bytes
                }
            )
            for root in 0...25 as ClosedRange<UInt32> {
                let (leaves, whole) = (pages.leaves(fromRoot: root), pages.wholeTree(fromRoot: root))
                if let leaves {
                    #expect((1...20).contains(root) && leaves.uppers == leaves.uppers.sorted() && whole != nil)
                    trees += 1
                } else {
                    others += 1
                }
            }
        }
        #expect(trees > 100 && others > 100, "\(trees) trees, and \(others) others")
    }
}
