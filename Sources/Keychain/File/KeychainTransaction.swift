import DatabaseSupport
import Foundation
import GRDB
import SyncCryptography

/// The content of an unlocked keychain's file, within one transaction.
struct KeychainTransaction {
    let db: Database
    let key: EpochKey

    /// A row of the table of items.
    struct StoredItem {
        let key: ItemKey
        let version: Version
        let isTombstone: Bool
        let sealed: [UInt8]

        var isSynchronizable: Bool { version.isSynchronizable }

        /// The context of the sealed secret: the secret opens only in this row and this version.
        var context: SealedContext {
            SealedContext(
                application: key.service,
                role: isTombstone ? "keychain tombstone" : isSynchronizable ? "keychain shared item" : "keychain item",
                document: key.account,
                client: key.accessGroup,
                generation: version.counter,
                upload: version.replica?.uuidString
            )
        }
    }

    /// The version of an item that a row holds.
    enum Version {
        /// The version of an item of this device alone, counted over all such items.
        case onThisDevice(UInt64)
        /// The version of a synchronizable item.
        case synchronizable(Stamp)

        var isSynchronizable: Bool { replica != nil }

        var counter: UInt64 {
            switch self {
            case .onThisDevice(let counter): counter
            case .synchronizable(let stamp): stamp.counter
            }
        }

        var replica: UUID? {
            switch self {
            case .onThisDevice: nil
            case .synchronizable(let stamp): stamp.replica
            }
        }
    }

    // MARK: The clock and the key

    private static let clockContext = SealedContext(application: "", role: "keychain clock")

    func clock() throws -> ReplicaClock {
        guard let sealed = try Data.fetchOne(db, sql: "SELECT clock FROM wrappedKey") else { throw Self.unreadable }
        do {
            let bytes = try key.open(Array(sealed), as: Self.clockContext, upTo: ReplicaClock.maximumBytes)
            return try ReplicaClock(bytes)
        } catch {
            throw KeychainError.tampered("The keychain's record of its edits", error)
        }
    }

    func write(_ clock: ReplicaClock) throws {
        try db.execute(sql: "UPDATE wrappedKey SET clock = ?", arguments: [sealed(clock)])
    }

    /// Writes a wrapped key and the clock, replacing a former key.
    func write(_ wrapped: WrappedKey, clock: ReplicaClock) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO wrappedKey (id, epoch, kind, bytes, clock) VALUES (0, ?, ?, ?, ?)",
            arguments: [wrapped.epoch.uuidString, wrapped.kind.rawValue, Data(wrapped.bytes), sealed(clock)]
        )
    }

    private func sealed(_ clock: ReplicaClock) -> Data {
        Data(key.seal(clock.content, as: Self.clockContext))
    }

    /// Seals all content again with another key.
    func reseal(by wrapped: WrappedKey, _ newKey: EpochKey) throws {
        let successor = KeychainTransaction(db: db, key: newKey)
        let clock = try clock()
        for row in try rows() {
            try successor.write(try secret(of: row), row.key, row.version)
        }
        try successor.write(wrapped, clock: clock)
    }

    // MARK: Items

    /// The items that match, in order, without tombstones.
    func items(matching query: KeychainQuery) throws -> [StoredItem] {
        let isSynchronizable: Bool? =
            switch query.synchronizable {
            case .absent: false
            case .yes: true
            case .any: nil
            }
        return try rows(
            where: """
                isTombstone = 0 AND (?1 IS NULL OR accessGroup = ?1) AND (?2 IS NULL OR service = ?2)
                AND (?3 IS NULL OR account = ?3) AND (?4 IS NULL OR isSynchronizable = ?4)
                """,
            [query.accessGroup, query.service, query.account, isSynchronizable]
        )
    }

    /// The item or the tombstone with exactly these attributes.
    func row(_ key: ItemKey, isSynchronizable: Bool) throws -> StoredItem? {
        try rows(
            where: "accessGroup = ? AND service = ? AND account = ? AND isSynchronizable = ?",
            [key.accessGroup, key.service, key.account, isSynchronizable]
        ).first
    }

    func rows(
        where condition: String = "TRUE",
        _ arguments: StatementArguments = StatementArguments()
    ) throws -> [StoredItem] {
        let order = "accessGroup, service, account, isSynchronizable"
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT * FROM item WHERE \(condition) ORDER BY \(order)"),
            arguments: arguments
        )
        return try rows.map(Self.item)
    }

    /// Returns the number of tombstones, or of items.
    func count(ofTombstones: Bool) throws -> Int {
        let sql = "SELECT count(*) FROM item WHERE (isTombstone != 0) = ?"
        return try Int.fetchOne(db, sql: sql, arguments: [ofTombstones]) ?? 0
    }

    /// Returns the secret of an item; `nil` for an authentic tombstone.
    func secret(of row: StoredItem) throws -> SecretBytes? {
        do {
            // A sealed secret isn't compressed, so it's longer than the secret.
            let limit = min(KeychainLimits.secretBytes, row.sealed.count)
            let secret = try key.openSecret(row.sealed, as: row.context, upTo: limit)
            return row.isTombstone ? nil : secret
        } catch {
            throw KeychainError.tampered("The item \(row.key.service.debugDescription) of the keychain", error)
        }
    }

    /// Returns the secrets of items, in the order of the rows; `nil` for an authentic tombstone.
    func secrets(of rows: [StoredItem]) throws -> [SecretBytes?] {
        let secrets = try SecretBytes.several(upTo: rows.map(\.sealed.count)) { index, buffer in
            try secret(of: rows[index])?.withBytes { bytes in
                buffer.copyMemory(from: bytes)
                return bytes.count
            } ?? 0
        }
        return zip(rows, secrets).map { $0.isTombstone ? nil : $1 }
    }

    /// Writes an item, or a tombstone if there is no secret.
    func write(_ secret: SecretBytes?, _ key: ItemKey, _ version: Version) throws {
        let row = StoredItem(key: key, version: version, isTombstone: secret == nil, sealed: [])
        let sealed = self.key.seal(secret ?? SecretBytes(count: 0) { _ in }, as: row.context)
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO item
                (accessGroup, service, account, isSynchronizable, isTombstone, counter, replica, sealed)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                key.accessGroup, key.service, key.account, version.isSynchronizable, row.isTombstone,
                Int64(version.counter), version.replica?.uuidString ?? "", Data(sealed),
            ]
        )
    }

    /// Removes a row.
    func remove(_ key: ItemKey, isSynchronizable: Bool) throws {
        try db.execute(
            sql: "DELETE FROM item WHERE accessGroup = ? AND service = ? AND account = ? AND isSynchronizable = ?",
            arguments: [key.accessGroup, key.service, key.account, isSynchronizable]
        )
    }

    /// Removes all rows.
    func removeAll() throws {
        try db.execute(sql: "DELETE FROM item")
    }

    private static func item(_ row: Row) throws -> StoredItem {
        // The file is untrusted: an attacker who can write to it can store any value.
        guard let service = String.fromDatabaseValue(row["service"]),
            let account = String.fromDatabaseValue(row["account"]),
            let accessGroup = String.fromDatabaseValue(row["accessGroup"]),
            let isSynchronizable = Bool.fromDatabaseValue(row["isSynchronizable"]),
            let isTombstone = Bool.fromDatabaseValue(row["isTombstone"]),
            let counter = Int64.fromDatabaseValue(row["counter"]).flatMap(UInt64.init(exactly:)),
            counter < ReplicaClock.end,
            let replica = String.fromDatabaseValue(row["replica"]),
            let sealed = Data.fromDatabaseValue(row["sealed"]),
            let key = try? ItemKey(service: service, account: account, accessGroup: accessGroup)
        else { throw unreadable }
        let stamp = UUID(uuidString: replica).map { Stamp(counter: counter, replica: $0) }
        guard isSynchronizable == (stamp != nil) else { throw unreadable }
        return StoredItem(
            key: key,
            version: stamp.map(Version.synchronizable) ?? .onThisDevice(counter),
            isTombstone: isTombstone,
            sealed: Array(sealed)
        )
    }

    private static let unreadable = DatabaseError.ofContent("a row in it can't be read")
}

extension KeychainError {
    fileprivate static func tampered(_ what: String, _ cause: any Error) -> KeychainError {
        KeychainError(
            .tampered,
            """
            \(what) isn't what was sealed there: the file was damaged or tampered with. Put the keychain's file back \
            from a backup.
            """,
            cause: cause
        )
    }
}
