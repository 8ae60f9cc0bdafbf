import Foundation
import GRDB
import GRDBSQLite
import OperationsTesting
import TestSupport
import Testing

@testable import StoreChanges

/// A device of a simulation: an app's store, and the replica beside it.
final class SimulatedDevice {
    private(set) var client: ClientID
    let store: DatabaseQueue
    private(set) var schema: StoreSchema
    /// Read with `unsafeRead`: with `read`, GRDB has all statements of the replica prepared again.
    private let replicaDatabase: DatabaseQueue
    private var replica: Replica
    /// The sets that this device captured.
    private(set) var sets: [SyncChangeSet] = []
    /// How many sets of each other device have arrived.
    var arrived: [ClientID: Int] = [:]
    /// The heads that this device published.
    private(set) var heads: [ClientHead] = []
    /// The search indexes that the last write left out of date.
    private(set) var staleSearchIndexes: [String] = []
    /// How many writes the store has refused because of some rows.
    private(set) var refusedWriteCount = 0
    /// Which of the heads of each other device this device read last.
    var readHeads: [ClientID: Int] = [:]

    init(_ name: String, schemaSQL: String, rules: SyncRules = .none, pageSize: Int = 4096) throws {
        client = ClientID(rawValue: name)
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA page_size = \(pageSize)") }
        store = try Self.store(configuration)
        replicaDatabase = try DatabaseQueue()
        try store.write { try $0.execute(sql: schemaSQL) }
        let schema = try store.read { try StoreSchema($0, rules: rules) }
        self.schema = schema
        replica = try replicaDatabase.write { [client] db in
            try Self.replica(in: db, schema, of: client)
        }
    }

    /// Opens an empty store, which is in memory but read as a file is; SQLite has to be built with `SQLITE_USE_URI`, as
    /// Debian's is.
    private static func store(_ configuration: Configuration) throws -> DatabaseQueue {
        try DatabaseQueue(path: "file:store?vfs=memdb", configuration: configuration)
    }

    /// Opens a replica; every other client divides many changes into sets of three.
    private static func replica(
        in db: Database,
        _ schema: StoreSchema,
        of client: ClientID,
        takesOlderSchema: Bool = false
    ) throws -> Replica {
        let identity = SynchronizedStore.Identity(document: "notes", client: client)
        let replica = try Replica(db, schema, identity, takesOlderSchema: takesOlderSchema)
        if client.rawValue.utf8.reduce(0, &+).isMultiple(of: 2) { replica.limits.changes = 3 }
        return replica
    }

    /// Copies a device with its identity, as restoring a backup on another device does.
    init(copying other: SimulatedDevice) throws {
        client = other.client
        schema = other.schema
        sets = other.sets
        arrived = other.arrived
        heads = other.heads
        readHeads = other.readHeads
        store = try Self.store(other.store.configuration)
        replicaDatabase = try DatabaseQueue()
        try other.store.backup(to: store)
        try other.replicaDatabase.backup(to: replicaDatabase)
        replica = try replicaDatabase.write { [client, schema] db in
            try Self.replica(in: db, schema, of: client)
        }
    }

    /// Joins with a checkpoint of a device that has just captured.
    init(_ name: String, joiningFrom other: SimulatedDevice) throws {
        client = ClientID(rawValue: name)
        schema = other.schema
        store = try Self.store(other.store.configuration)
        replicaDatabase = try DatabaseQueue()
        try other.store.backup(to: store)
        try store.write { try $0.execute(sql: "DROP TABLE IF EXISTS grdb_storesync") }
        try other.replicaDatabase.backup(to: replicaDatabase)
        replica = try replicaDatabase.write { [client, schema, store] db in
            try Replica.makeCheckpoint(of: db, by: other.client)
            let replica = try Self.replica(in: db, schema, of: client)
            try store.read { try replica.join(with: $0) }
            return replica
        }
    }

    /// Continues as another client.
    func become(_ name: String, takesOlderSchema: Bool = false) throws {
        client = ClientID(rawValue: name)
        replica = try replicaDatabase.write { [client, schema] db in
            try Self.replica(in: db, schema, of: client, takesOlderSchema: takesOlderSchema)
        }
    }

    /// Changes the schema as an update of the app does, and opens the replica again.
    func migrate(_ sql: String, takesOlderSchema: Bool = false) throws {
        try store.write { try $0.execute(sql: sql) }
        schema = try store.read { try StoreSchema($0) }
        try become(client.rawValue, takesOlderSchema: takesOlderSchema)
    }

    /// Whether sets wait for an update of the app.
    func needsNewerSchema() throws -> Bool { try replicaDatabase.unsafeRead { _ in try replica.needsNewerSchema() } }

    // MARK: The log

    /// Publishes a head.
    @discardableResult
    func publishHead() throws -> ClientHead {
        let number = (heads.last?.number ?? 0) + 1
        let head = try replicaDatabase.unsafeRead { _ in try replica.head(number: number) }
        heads.append(head)
        return head
    }

    /// Whether a set is integrated.
    func counts(_ set: SyncChangeSet) throws -> Bool {
        try replicaDatabase.unsafeRead { _ in
            try replica.log.entries(.integrated, .stable).contains { $0.reference == LogEntry(set).reference }
        }
    }

    /// Makes this client the replica's.
    func adopt() throws { try replicaDatabase.write { _ in try replica.adopt() } }

    /// Notes that all captured sets are published.
    func notePublication() throws {
        try replicaDatabase.write { _ in try replica.log.notePublication(of: client, upTo: .max) }
    }

    /// Remembers heads and notes of removals.
    func remember(_ heads: [ClientHead], removals: [ClientID: UInt64] = [:]) throws {
        var news = LogNews()
        news.heads = heads
        news.removals = removals
        try replicaDatabase.write { _ in try replica.remember(news) }
    }

    /// Integrates sets, and remembers heads and notes of removals, as a synchronization does.
    func learn(_ sets: [SyncChangeSet] = [], heads: [ClientHead] = [], removals: [ClientID: UInt64]) throws {
        var news = LogNews()
        news.heads = heads
        news.removals = removals
        try replicaDatabase.write { _ in try replica.learn(sets, news) }
    }

    /// Forgets what every client has seen.
    func trim(publishedUpTo sequence: UInt64 = .max) throws {
        try replicaDatabase.write { _ in try replica.trim(publishedUpTo: sequence) }
    }

    /// The end of what this device can't undo any more.
    func stable() throws -> StablePrefix? { try replicaDatabase.unsafeRead { _ in try replica.head(number: 0).stable } }

    /// The digest of a state, computed from all of it.
    func digest(of content: StateContent) throws -> StateDigest {
        StateDigest(of: content, FoldSchema(schema, evaluator: ScratchEvaluator(schema)), StateDigest.Key("notes"))
    }

    func digests() throws -> (stable: StateDigest, present: StateDigest) {
        try replicaDatabase.unsafeRead { _ in try replica.digests() }
    }

    /// What this device's head says of the state after all that it has integrated.
    func fingerprint() throws -> SynchronizedStore.Fingerprint? {
        try replicaDatabase.unsafeRead { _ in
            let last = try #require(try replica.log.entries(.integrated, .stable).last)
            return try replica.fingerprint(at: StablePrefix(last.position, replica.log.integrated()))
        }
    }

    func hasLostIdentity() throws -> Bool { try replicaDatabase.unsafeRead { _ in try replica.hasLostIdentity() } }

    /// Publishes the edits of void sets again.
    @discardableResult
    func captureVoidSetsAgain(at time: UInt64 = 0) throws -> [SyncChangeSet] {
        let again = try decoded(replicaDatabase.write { _ in try replica.captureVoidSetsAgain(at: time) })
        sets += again
        return again
    }

    /// How large a captured set is at most.
    var limits: CapturedChanges.Limits {
        get { replica.limits }
        set { replica.limits = newValue }
    }

    /// Sets of this device with their changes.
    private func decoded(_ sets: [OwnSet]) throws -> [SyncChangeSet] {
        try replicaDatabase.unsafeRead { _ in try sets.compactMap { try replica.log.set($0.reference) } }
    }

    /// About how many times SQLite's machine takes `count` steps in the replica while `body` runs, however fast it is.
    ///
    /// - Parameters:
    ///   - count: The number of steps; a statement that takes fewer isn't counted.
    ///   - body: What takes steps.
    /// - Returns: How many times.
    /// - Throws: What `body` throws.
    func replicaSteps(every count: CInt = 100, _ body: () throws -> Void) throws -> Int {
        try steps(in: replicaDatabase, every: count, body)
    }

    /// About how many hundreds of steps SQLite's machine takes in the store while `body` runs.
    func storeSteps(_ body: () throws -> Void) throws -> Int { try steps(in: store, every: 100, body) }

    private func steps(in database: DatabaseQueue, every number: CInt, _ body: () throws -> Void) throws -> Int {
        let count = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        count.initialize(to: 0)
        defer { count.deallocate() }
        database.inDatabase { db in
            let add: @convention(c) (UnsafeMutableRawPointer?) -> CInt = { count in
                count?.assumingMemoryBound(to: Int.self).pointee += 1
                return 0
            }
            sqlite3_progress_handler(db.sqliteConnection, number, add, count)
        }
        defer { database.inDatabase { sqlite3_progress_handler($0.sqliteConnection, 0, nil, nil) } }
        try body()
        return count.pointee
    }

    /// The statements that are executed in the replica while `body` runs.
    func replicaStatements(_ body: () throws -> Void) throws -> [String] {
        var statements: [String] = []
        replicaDatabase.inDatabase { db in db.trace { statements.append("\($0)") } }
        defer { replicaDatabase.inDatabase { $0.trace(options: []) } }
        try body()
        return statements
    }

    /// The temporary tables and indexes of the replica.
    func temporaryNames() throws -> [String] {
        try replicaDatabase.unsafeRead { try String.fetchAll($0, sql: "SELECT name FROM sqlite_temp_schema") }
    }

    /// The pages of the store in a transaction.
    func pages(of db: Database) throws -> RememberedPages? {
        try replicaDatabase.unsafeRead { _ in try replica.pages(of: db) }
    }

    /// Which rows of a table the next capture compares.
    func changes(of table: String) throws -> ChangedRows? {
        try replicaDatabase.unsafeRead { _ in try store.read { try replica.pages(of: $0)?.changes(of: table) } }
    }

    /// Whether the next capture compares so few rows that the store need not be copied.
    func isMostlyUnchanged() throws -> Bool? {
        try replicaDatabase.unsafeRead { _ in try store.read { try replica.pages(of: $0)?.areMostlyUnchanged } }
    }

    /// Lets the next capture compare all rows.
    func forgetPages() throws {
        try replicaDatabase.write { try $0.execute(sql: "DELETE FROM facts WHERE name = 'pages'") }
    }

    /// Cuts off or changes a part of the record of pages.
    func damagePages(using random: inout SplitMix64) throws {
        let (table, column) = random.chance(30) ? ("facts", "value") : ("pages", "leaves")
        let condition = table == "facts" ? "name = 'pages'" : "true"
        try replicaDatabase.write { db in
            let values = try Data.fetchAll(db, sql: "SELECT \(column) FROM \(table) WHERE \(condition)")
            let former = try #require(values.randomElement(using: &random))
            var bytes = Array(former)
            if random.chance(50) {
                bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
            } else {
                bytes[Int.random(in: bytes.indices, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
            }
            try db.execute(
                sql: "UPDATE \(table) SET \(column) = ? WHERE \(condition) AND \(column) = ?",
                arguments: [Data(bytes), former]
            )
            #expect(db.changesCount == 1)
        }
    }

    /// Executes a statement of the app, which may violate a constraint.
    @discardableResult
    func edit(_ sql: String, observingForeignKeys: Bool = true) throws -> Bool {
        do {
            try store.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA foreign_keys = \(observingForeignKeys ? "ON" : "OFF")")
                defer { try? db.execute(sql: "PRAGMA foreign_keys = OFF") }
                try db.inTransaction {
                    try db.execute(sql: sql)
                    return .commit
                }
            }
            return true
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(error.resultCode) {
            return false
        }
    }

    /// Takes the store as the first baseline.
    func begin() throws {
        try replicaDatabase.write { _ in try store.read { try replica.begin(with: $0) } }
    }

    /// Captures what the app changed.
    ///
    /// - Returns: The first of the new sets.
    @discardableResult
    func capture(
        at time: UInt64 = 0,
        allowsDeletions: Bool = true,
        readsPages: Bool = true,
        writtenAgain: RowWrittenAgain? = nil
    ) throws -> SyncChangeSet? {
        let captured = try replicaDatabase.write { _ in
            _ = try store.read { try replica.recover($0) }
            return try store.read {
                let pages = readsPages ? try replica.pages(of: $0) : nil
                return try replica.capture(
                    $0,
                    at: time,
                    allowsDeletions: allowsDeletions,
                    since: pages,
                    writtenAgain: writtenAgain
                )
            }
        }
        let new = try decoded(captured)
        sets += new
        return new.first
    }

    /// Captures a store that isn't the replica's.
    ///
    /// - Parameter side: What counts.
    /// - Returns: The new sets.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    func capture(taking side: TakenSide) throws -> [SyncChangeSet] {
        let captured = try replicaDatabase.write { _ in
            try store.read { try replica.capture($0, taking: side, at: 0, allowsDeletions: true) }
        }
        let new = try decoded(captured)
        sets += new
        return new
    }

    /// Restores an entry of the conflict log, unless the store's constraints are against that.
    ///
    /// - Returns: Whether it was restored.
    func restore(_ number: Int64, at time: UInt64 = 0) throws -> Bool {
        try capture(at: time)
        var row: RowWrittenAgain?
        do {
            try replicaDatabase.write { _ in
                try store.writeWithoutTransaction { db in
                    try db.execute(sql: "PRAGMA foreign_keys = ON")
                    defer { try? db.execute(sql: "PRAGMA foreign_keys = OFF") }
                    try db.inTransaction(.immediate) {
                        row = try replica.restore(number, in: db, at: time)
                        return .commit
                    }
                }
            }
        } catch let error as StoreChangesError where error.code == .cannotRestore {
            return false
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return false
        }
        try capture(at: time, writtenAgain: row)
        return true
    }

    /// Integrates sets of other devices.
    func integrate(_ sets: [SyncChangeSet]) throws {
        try replicaDatabase.write { _ in
            _ = try store.read { try replica.recover($0) }
            try replica.integrate(sets)
        }
    }

    /// Integrates sets of other devices, and writes what merging changed into the store.
    func receive(_ sets: [SyncChangeSet]) throws {
        try integrate(sets)
        try write()
    }

    /// The steps of a write, after each of which a device may die.
    enum WriteStep: CaseIterable {
        case prepare, write, finish
    }

    /// Writes what merging changed into the store.
    ///
    /// - Parameters:
    ///   - last: The last step; a device that doesn't die takes them all.
    ///   - meanwhile: What the app writes after the capture; if that is in the way, nothing is written.
    /// - Returns: How many rows changed, by table.
    /// - Throws: What SQLite or the replica throws.
    @discardableResult
    func write(upTo last: WriteStep = .finish, meanwhile: (() throws -> Void)? = nil) throws -> [String: ChangeCounts] {
        try replicaDatabase.write { _ in try store.read { try replica.prepare($0) } }
        guard last != .prepare else { return [:] }
        try meanwhile?()
        return try writePrepared(upTo: last, isApart: meanwhile != nil)
    }

    private func writePrepared(upTo last: WriteStep, isApart: Bool = false) throws -> [String: ChangeCounts] {
        let written: WrittenChanges?
        do {
            written = try replicaDatabase.unsafeRead { _ in
                try store.write { try !isApart || replica.canWrite(to: $0) ? replica.write(to: $0) : nil }
            }
        } catch let error as DatabaseError where isApart && error.resultCode == .SQLITE_CONSTRAINT {
            return [:]
        } catch let error as RefusedRows {
            guard !isApart else { return [:] }
            refusedWriteCount += 1
            try replicaDatabase.write { _ in try replica.refuse(error) }
            return try writePrepared(upTo: last)
        }
        staleSearchIndexes = written?.staleSearchIndexes ?? []
        guard let written, last != .write else { return written?.counts ?? [:] }
        try replicaDatabase.write { _ in try replica.finish() }
        return written.counts
    }

    /// The rows that the store refuses.
    func refusals() throws -> [RefusalSummary] { try replicaDatabase.unsafeRead { _ in try replica.refusals() } }

    /// How many parts there are of what undoing the sets puts back.
    func undoPartCount() throws -> Int {
        try replicaDatabase.unsafeRead { try Int.fetchOne($0, sql: "SELECT count(*) FROM undo") ?? 0 }
    }

    /// The last set of each client that is integrated.
    func integratedSets() throws -> [ClientID: SeenSet] {
        try replicaDatabase.unsafeRead { _ in try replica.log.integrated() }
    }

    /// The size of the headers that the log has of all sets.
    func headerByteCount() throws -> Int {
        try replicaDatabase.unsafeRead { try Int.fetchOne($0, sql: "SELECT total(length(header)) FROM sets") ?? 0 }
    }

    /// How many sets the log has the headers of.
    func headerCount() throws -> Int {
        try replicaDatabase.unsafeRead {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM sets WHERE header <> x''") ?? 0
        }
    }

    /// The size of all void sets.
    func voidByteCount() throws -> Int {
        try replicaDatabase.unsafeRead {
            try Int.fetchOne($0, sql: "SELECT total(length(bytes)) FROM sets WHERE status = 2") ?? 0
        }
    }

    func content() throws -> StateContent { try replicaDatabase.unsafeRead { _ in try replica.content() } }
    func loggedConflicts() throws -> [LoggedConflict] {
        try replicaDatabase.unsafeRead { _ in try replica.conflicts() }
    }
    func conflicts() throws -> [Conflict] {
        try replicaDatabase.unsafeRead { _ in try replica.conflicts().map(\.conflict) }
    }

    /// How many entries the conflict log has after one of them.
    func conflictCount(after number: Int64) throws -> Int {
        try replicaDatabase.unsafeRead { _ in try replica.conflictCount(after: number) }
    }

    /// The rows of a query, each as text.
    func rows(_ sql: String) throws -> [String] {
        try store.read { db in
            try Row.fetchAll(db, sql: sql).map { row in row.map { "\($0.1)" }.joined(separator: "|") }
        }
    }

    /// What violates a constraint of the store.
    func violations() throws -> [String] {
        try store.read { db in
            let references = try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { "\($0)" }
            let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
            return references + integrity
        } + searchProblems()
    }

    /// What a full-text index has that its table doesn't, or lacks.
    private func searchProblems() throws -> [String] {
        guard try store.read({ try $0.tableExists("search") }) else { return [] }
        do {
            try store.write { try $0.execute(sql: "INSERT INTO search (search, rank) VALUES ('integrity-check', 1)") }
            return []
        } catch {
            return ["\(error)"]
        }
    }
}
