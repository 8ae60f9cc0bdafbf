import DatabaseSupport
import Foundation
package import GRDB
import GRDBSQLite

/// How a store is read and written: with a connection of its own, or also with an app's.
///
/// With a write-ahead log, reading needs only the own connection, and the app isn't held up. What is written goes through
/// the app's connection, so that the app's observers are told.
package struct StoreConnection {
    private let reader: DatabaseQueue
    let app: (any DatabaseWriter)?
    /// Whether the app's connection waits while the store is read.
    private let holdsApp: Bool

    /// Opens a store.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - replica: Where its replica is, if there is one.
    ///   - app: The connection through which it's written; `nil` for the own one.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    init(storeAt url: URL, ofReplicaAt replica: URL? = nil, through app: (any DatabaseWriter)?) throws {
        self.app = app
        // Opening a store that doesn't exist would create it.
        try StoreSchema.requireStore(at: url, ofReplicaAt: replica)
        guard let app else {
            reader = try DatabaseQueue(path: url.path, configuration: SynchronizedStore.configuration)
            holdsApp = false
            return
        }
        try Self.check(app)
        // The app's functions and collations are known here too.
        var configuration = app.configuration
        configuration.foreignKeysEnabled = false
        // Otherwise a column that was dropped since the schema was read would be read as its own name.
        configuration.acceptsDoubleQuotedStringLiterals = false
        configuration.busyMode = .timeout(SynchronizedStore.busyTimeout)
        configuration.observesSuspensionNotifications = true
        // What is read while the app's connection waits doesn't wait for the app's queues.
        configuration.targetQueue = nil
        configuration.writeTargetQueue = nil
        // With a rollback journal, a reader makes a write fail that doesn't wait.
        // `read` of a queue that the app has closed ends the process.
        holdsApp = try !app.unsafeRead { try $0.usesLog }
        reader = try Self.hold(holdsApp ? app : nil) {
            try DatabaseQueue(path: url.path, configuration: configuration)
        }
    }

    /// Checks that a store can be written through an app's connection.
    ///
    /// - Throws: ``StoreChangesError``.
    package static func check(_ app: any DatabaseWriter) throws {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: app.path, isDirectory: &isDirectory), !isDirectory.boolValue else {
            throw StoreChangesError(
                .storeNotFound,
                """
                The app's database has no file at its path “\(app.path)”. A database in memory can't be synchronized, nor a \
                file that was removed. Open a database in a file, with its path.
                """
            )
        }
        guard !app.configuration.readonly else {
            throw StoreChangesError(
                .cannotWrite,
                "The app's connection to \(app.path) only reads. Synchronize with a connection that can write."
            )
        }
    }

    private static func hold<Result>(_ app: (any DatabaseWriter)?, _ body: () throws -> Result) throws -> Result {
        guard let app else { return try body() }
        return try app.writeWithoutTransaction { _ in try body() }
    }

    // MARK: Reading

    /// Reads the store in a transaction.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try Self.hold(holdsApp ? app : nil) { try reader.read(body) }
    }

    /// What is known of a store's files before a transaction that reads them.
    struct Files {
        /// The status before the transaction began; `nil` if it may have changed already for a commit that the transaction
        /// doesn't see.
        let status: StoreStatus?
        /// The store's version in the transaction.
        let version: Int
        /// When the store was last written.
        let modified: Date?
    }

    /// Reads the store in a transaction.
    ///
    /// - Parameters:
    ///   - movesLog: Whether what the write-ahead log holds is moved into the file before, unless that is much, or another
    ///     connection is using the log. An app's connection writes only before or after that.
    ///   - body: Reads the store.
    /// - Returns: What `body` returns.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func read<Result>(movingLog movesLog: Bool, _ body: (Database, Files) throws -> Result) throws -> Result {
        try Self.hold(holdsApp ? app : nil) {
            try reader.writeWithoutTransaction { db in
                let movesLog = try movesLog && (1...Self.maximumLogBytes).contains(DatabasePages.logSize(of: db))
                defer { try? db.rollback() }
                let files = try Self.hold(movesLog && !holdsApp ? app : nil) { try begin(db, movingLog: movesLog) }
                return try db.readOnly { try body(db, files) }
            }
        }
    }

    /// Begins a transaction that reads the store's file.
    private func begin(_ db: Database, movingLog movesLog: Bool) throws -> Files {
        // Moving the log changes the files, but not the version.
        let (version, status) = (try Self.version(db), StoreStatus(ofStoreAt: reader.path))
        if movesLog { try emptyLog(of: db) }
        let (log, present, isIdle) = try statusAfterCommits(db)
        try db.beginTransaction(.deferred)
        let presentVersion = try Self.version(db)
        let isExact = try log == WriteAheadLog(of: db) && (isIdle || log?.mayHavePagesOfNextCommit(db) != true)
        let modified = presentVersion == version ? status.modified : StoreStatus(ofStoreAt: reader.path).modified
        return Files(status: isExact ? present : nil, version: presentVersion, modified: modified)
    }

    /// The status of the store's files after commits that are in progress, unless these take long.
    ///
    /// A commit changes the files before other connections see it, and no file when they do.
    ///
    /// - Parameter db: The connection that reads, without a transaction.
    /// - Returns: How far the log is; the status; and whether no connection was writing then.
    /// - Throws: `DatabaseError`.
    private func statusAfterCommits(_ db: Database) throws -> (log: WriteAheadLog?, StoreStatus, isIdle: Bool) {
        func status(waits: Bool) throws -> (log: WriteAheadLog?, StoreStatus, isIdle: Bool) {
            let isIdle = try waits && waitForCommit(db)
            defer { if isIdle { try? db.rollback() } }
            let log = try WriteAheadLog(of: db)
            return (log, StoreStatus(ofStoreAt: reader.path, log: log), isIdle)
        }
        guard try WriteAheadLog(of: db)?.mayHavePagesOfNextCommit(db) == true else { return try status(waits: false) }
        guard let app else { return try status(waits: true) }
        // An app's connection that doesn't wait for locks must not find this one.
        return try app.unsafeReentrantWrite { try status(waits: !$0.isInsideTransaction) }
    }

    /// Begins a transaction in which no other connection can write; returns whether that succeeded in time.
    private func waitForCommit(_ db: Database) throws -> Bool {
        sqlite3_busy_timeout(db.sqliteConnection, Self.longestCommit)
        defer { sqlite3_busy_timeout(db.sqliteConnection, CInt(SynchronizedStore.busyTimeout * 1000)) }
        do {
            try db.beginTransaction(.immediate)
            return true
        } catch let error as DatabaseError where [.SQLITE_BUSY, .SQLITE_READONLY].contains(error.resultCode) {
            return false
        }
    }

    /// How long to wait for a commit that is in progress, in milliseconds; a transaction that has written much may take longer.
    private static let longestCommit: CInt = 1_000

    /// The size of the largest log that is moved into the store's file: other connections can't write meanwhile.
    private static let maximumLogBytes: Int64 = 64 << 20

    /// Moves what the write-ahead log holds into the store's file, as closing it would, unless that means waiting for an app.
    func emptyLog() throws {
        guard app == nil else { return }
        try reader.writeWithoutTransaction { try emptyLog(of: $0) }
    }

    private func emptyLog(of db: Database) throws {
        sqlite3_busy_timeout(db.sqliteConnection, 0)
        defer { sqlite3_busy_timeout(db.sqliteConnection, CInt(SynchronizedStore.busyTimeout * 1000)) }
        try DatabasePages.emptyLog(of: db)
    }

    /// Changes whenever a connection other than the reading one commits.
    static func version(_ db: Database) throws -> Int {
        // A transaction sees the version of its snapshot once it has read something.
        _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema")
        return try Int.fetchOne(db, sql: "PRAGMA data_version") ?? 0
    }

    /// The version of the store that a connection is about to write.
    ///
    /// The connection that reads tells it, since it sees the app's own commits too.
    ///
    /// - Parameter db: The connection, in a write transaction that hasn't written yet.
    /// - Returns: The version, which is that of the last capture if nothing was committed since.
    /// - Throws: `DatabaseError`.
    func version(beforeWriting db: Database) throws -> Int {
        try app == nil ? Self.version(db) : reader.read(Self.version)
    }

    // MARK: Writing

    /// Writes to the store in one transaction, which is on the disk afterwards.
    ///
    /// - Parameters:
    ///   - foreignKeys: Whether SQLite observes foreign keys.
    ///   - body: Writes, and returns how the transaction ends.
    /// - Returns: The state in which the connection left the store.
    /// - Throws: `DatabaseError` and ``StoreChangesError``; the error of `body`, or of an observer of the app.
    @discardableResult
    func write(
        foreignKeys: Bool = false,
        _ body: (Database) throws -> Database.TransactionCompletion
    ) throws -> LeftState {
        try (app ?? reader).writeWithoutTransaction { db in
            try refuseUnsuitable(db)
            let connection = SQLConnection(db)
            let formerForeignKeys = try connection.set(.foreignKeys, enabled: foreignKeys)
            defer { _ = try? connection.set(.foreignKeys, enabled: formerForeignKeys) }
            // As the app's triggers may expect.
            let formerQuotes = try connection.set(.doubleQuotedText, enabled: true)
            defer { _ = try? connection.set(.doubleQuotedText, enabled: formerQuotes) }
            let synchronous = try connection.first("PRAGMA synchronous")?.integer(0) ?? 0
            try connection.execute("PRAGMA synchronous = EXTRA")
            defer { try? connection.execute("PRAGMA synchronous = \(synchronous)") }
            let reachesMedium = try connection.first("PRAGMA fullfsync")?.integer(0) ?? 0
            try connection.execute("PRAGMA fullfsync = ON")
            defer { try? connection.execute("PRAGMA fullfsync = \(reachesMedium)") }
            try db.inTransaction(.immediate) { try body(db) }
            return LeftState(db)
        }
    }

    /// The state in which the writing connection left the store; any later commit, its own too, leaves another one.
    struct LeftState: Equatable {
        private let version: UInt32

        fileprivate init(_ db: Database) {
            var version: UInt32 = 0
            sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_DATA_VERSION, &version)
            self.version = version
        }
    }

    /// The status of the store's files, if the store is in the state in which it was left.
    func status(ofStoreAt path: String, leftIn state: LeftState) throws -> StoreStatus? {
        try (app ?? reader).writeWithoutTransaction { db in
            // The app may have closed the connection meanwhile.
            guard db.sqliteConnection != nil, !db.isInsideTransaction else { return nil }
            // Before the version, so that no commit can come between the two.
            let log = try WriteAheadLog(of: db)
            let status = StoreStatus(ofStoreAt: path, log: log)
            guard try log?.mayHavePagesOfNextCommit(db) != true else { return nil }
            // The connection notices other connections' commits when it reads.
            _ = try Self.version(db)
            return LeftState(db) == state ? status : nil
        }
    }

    private func refuseUnsuitable(_ db: Database) throws {
        guard app != nil else { return }
        // Without a connection, SQLite reports lack of memory.
        guard db.sqliteConnection != nil else { throw DatabaseError(resultCode: .SQLITE_MISUSE) }
        guard !db.isInsideTransaction else {
            throw StoreChangesError(.busy, "The app has a transaction in progress, and will end it later. Try again.")
        }
        let temporary = try SQLConnection(db).first(
            """
            SELECT name FROM sqlite_temp_schema WHERE type IN ('table', 'view')
            AND lower(name) IN (SELECT lower(name) FROM main.sqlite_schema)
            """
        )
        guard let name = temporary?.text(0) else { return }
        throw StoreChangesError(
            .cannotWrite,
            """
            The app's connection has a temporary table \(name), which hides the store's table of that name. Drop or rename \
            it, then synchronize again.
            """
        )
    }
}
