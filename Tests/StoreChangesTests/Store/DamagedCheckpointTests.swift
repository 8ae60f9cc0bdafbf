import Foundation
import GRDB
import OperationsTesting
import TestSupport
import Testing

@testable import StoreChanges

@Suite("Damaged checkpoints", .timeLimit(.minutes(60)))
struct DamagedCheckpointTests {
    /// A checkpoint that has rows of most tables of a replica, and a later set of its maker.
    private final class Fixture {
        let folder = TemporaryFolder()
        let beginning: SynchronizedStore.Beginning
        private(set) var later: [SyncChangeSet] = []

        init() throws {
            beginning = SynchronizedStore.Beginning(
                store: folder.appending(path: "store"),
                checkpoint: folder.appending(path: "checkpoint")
            )
            let apps = try ["laptop", "phone"].map { try DatabaseQueue(path: folder.appending(path: $0).path) }
            for app in apps {
                try app.execute(
                    """
                    CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                    CREATE TABLE note (
                        id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE CASCADE, title TEXT
                    );
                    CREATE TABLE visit (place TEXT);
                    """
                )
            }
            func edit(_ index: Int, _ sql: String) throws -> [SyncChangeSet] {
                try apps[index].execute(sql)
                return try open(index == 0 ? "laptop" : "phone").synchronized(with: []).captured
            }
            let first = try edit(
                0,
                """
                INSERT INTO folder VALUES (1, 'home'), (2, 'work');
                INSERT INTO note VALUES (1, 1, 'milk'), (2, 2, 'mail'), (3, 2, 'call');
                INSERT INTO visit VALUES ('market'), ('market'), ('bank');
                """
            )
            _ = try open("phone").synchronized(with: first)
            let others = try edit(
                1,
                """
                UPDATE note SET title = 'soy milk' WHERE id = 1;
                INSERT INTO folder VALUES (3, 'garden');
                DELETE FROM note WHERE id = 3;
                DELETE FROM visit WHERE place = 'bank';
                """
            )
            _ = try edit(0, "UPDATE note SET title = 'oat milk' WHERE id = 1; INSERT INTO folder VALUES (3, 'garden')")
            _ = try open("laptop").synchronized(with: others)
            var news = LogNews()
            news.removals = [ClientID(rawValue: "former"): 3]
            _ = try open("laptop").synchronize(with: [], news: news)
            _ = try open("laptop").makeCheckpoint(at: #require(beginning.checkpoint), withStoreAt: beginning.store)
            later = try edit(0, "UPDATE note SET title = 'rice milk' WHERE id = 1; INSERT INTO visit VALUES ('lake')")
        }

        func identity(_ client: String) -> SynchronizedStore.Identity {
            SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: client))
        }

        func open(_ client: String) throws -> SynchronizedStore {
            try SynchronizedStore(
                storeAt: folder.appending(path: client),
                replicaAt: folder.appending(path: "\(client).replica"),
                identity(client)
            )
        }

        /// Lets a device join with a copy of the checkpoint that was changed.
        func join(_ client: String, changing change: (Database) throws -> Void) throws {
            var damaged = beginning
            let (store, checkpoint) = (folder.appending(path: client), folder.appending(path: "\(client).checkpoint"))
            try FileManager.default.copyItem(at: beginning.store, to: store)
            try FileManager.default.copyItem(at: #require(beginning.checkpoint), to: checkpoint)
            let database = try DatabaseQueue(path: checkpoint.path)
            try database.write(change)
            try database.close()
            damaged.checkpoint = checkpoint
            let replica = folder.appending(path: "\(client).replica")
            try SynchronizedStore.createReplica(at: replica, from: damaged, identity(client))
        }
    }

    @Test("A device joins with the checkpoint that isn't damaged, and goes on with later sets")
    func undamaged() throws {
        let fixture = try Fixture()
        try fixture.join("tablet") { _ in }
        let tablet = try fixture.open("tablet")
        #expect(try !tablet.conflicts().isEmpty)
        #expect(try tablet.conflicts() == fixture.open("laptop").conflicts())
        _ = try tablet.synchronized(with: fixture.later)
        #expect(try tablet.content() == fixture.open("laptop").content())
    }

    @Test(
        "A checkpoint with a number or a digest that no replica has is refused as damaged",
        arguments: [
            "UPDATE conflicts SET sequence = -1", "UPDATE conflicts SET stamp = \(Int64.max)",
            "UPDATE conflicts SET other_client = 'phone', other_sequence = -1, other_stamp = 1",
            "UPDATE conflicts SET number = \(Int64.max) WHERE number = (SELECT max(number) FROM conflicts)",
            "UPDATE sets SET sequence = -1",
            "UPDATE sets SET digest = x'00'", "UPDATE removals SET sequence = -1", "UPDATE schemas SET number = -1",
            "UPDATE schemas SET digest = x''", "UPDATE tables SET id = \(Int64.max) WHERE name = 'note'",
            "UPDATE rows SET id = \(Int64.max) WHERE id = (SELECT max(id) FROM rows)",
            "INSERT INTO pending_counts (tbl, name, count) VALUES (1, x'0200', \(Int64.max))",
            "UPDATE facts SET value = x'00' WHERE name = 'clock'", "UPDATE sqlite_sequence SET seq = \(Int64.max)",
            "DROP TABLE facts",
        ]
    )
    func outOfRange(sql: String) throws {
        let fixture = try Fixture()
        let error = #expect(throws: StoreChangesError.self) {
            try fixture.join("tablet") { db in
                try db.execute(sql: sql)
                #expect(db.changesCount > 0 || sql.hasPrefix("DROP"))
            }
        }
        #expect(error?.code == .corrupt && error?.message.hasPrefix("The record of a baseline") == true)
    }

    @Test(
        "Whatever number or bytes a checkpoint has in one place, a device joins and goes on, or fails with an error",
        arguments: TestDepth.seeds(quick: 4, deep: 1000)
    )
    func anyValue(seed: UInt64) throws {
        let fixture = try Fixture()
        var random = SplitMix64(seed: seed)
        for index in 0..<25 {
            let client = "tablet \(index)"
            do {
                try fixture.join(client) { try Self.damage($0, using: &random) }
                let tablet = try fixture.open(client)
                _ = try tablet.conflicts()
                _ = try tablet.knowledge()
                _ = try tablet.synchronized(with: fixture.later)
                _ = try tablet.conflicts()
            } catch is StoreChangesError {}
        }
    }

    /// Replaces one value by another of its kind that is negative, greatest, or shorter.
    private static func damage(_ db: Database, using random: inout SplitMix64) throws {
        let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        let filled = try tables.filter { try Int.fetchOne(db, sql: "SELECT count(*) FROM \($0)") != 0 }
        let table = try #require(filled.randomElement(using: &random))
        let columns = try db.columns(in: table).map(\.name)
        let column = try #require(columns.randomElement(using: &random))
        let rows = try Row.fetchAll(db, sql: "SELECT * FROM \(table) WHERE \(column) IS NOT NULL")
        guard let row = rows.randomElement(using: &random), let former: DatabaseValue = row[column] else { return }
        let present: DatabaseValue =
            switch former.storage {
            case .int64(let number):
                ([-1, 0, .min, .max, 1 << 62, number &+ 1].randomElement(using: &random) ?? -1).databaseValue
            case .blob(let data): data.prefix(Int.random(in: 0...data.count, using: &random)).databaseValue
            case .string(let text): String(text.prefix(Int.random(in: 0...text.count, using: &random))).databaseValue
            case .null, .double: (-1).databaseValue
            }
        let condition = columns.map { "\($0) IS ?" }.joined(separator: " AND ")
        let values = columns.map { row[$0] as DatabaseValue }
        // A number that another row has stays.
        try db.execute(
            sql: "UPDATE OR IGNORE \(table) SET \(column) = ? WHERE \(condition)",
            arguments: StatementArguments([present] + values)
        )
    }
}
