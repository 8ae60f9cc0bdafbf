/// The mark in a store by which a replica knows that it is the store that it wrote last.
///
/// A copy, a restored backup or another store has another mark, or an older one: its differences from the replica aren't
/// edits of the user.
struct StoreToken: Hashable, Sendable {
    /// How many bytes a token has.
    static let byteCount = 16
    let bytes: [UInt8]

    /// Creates a token that no other store has.
    static func random() -> StoreToken {
        StoreToken(bytes: (0..<byteCount).map { _ in UInt8.random(in: .min ... .max) })
    }

    /// The table, in which a document is identified by its origin.
    ///
    /// Its name has a prefix that GRDB ignores when it compares schemas.
    static let table = "grdb_storesync"

    /// Reads the store's token for the document with an origin; `nil` if it has none.
    static func read(_ store: SQLConnection, origin: String) throws -> StoreToken? {
        let exists = try store.first("SELECT 1 FROM sqlite_schema WHERE name = ?", [.text(table)])
        guard exists != nil else { return nil }
        return try store.first("SELECT token FROM \(table) WHERE document = ?", [.text(origin)])?.bytes(0)
            .map { StoreToken(bytes: $0) }
    }

    /// All tokens of a store: one for each document to which it belongs.
    static func all(_ store: SQLConnection) throws -> [StoreToken] {
        guard try store.first("SELECT 1 FROM sqlite_schema WHERE name = ?", [.text(table)]) != nil else { return [] }
        return try store.all("SELECT token FROM \(table)").compactMap { $0.bytes(0) }.map { StoreToken(bytes: $0) }
    }

    /// Removes the tokens of all documents from a copy of a store.
    static func removeAll(_ store: SQLConnection) throws { try store.execute("DROP TABLE IF EXISTS \(table)") }

    /// Writes the token, in the same transaction as everything else that it stands for.
    func write(_ store: SQLConnection, origin: String) throws {
        try store.execute(
            "CREATE TABLE IF NOT EXISTS \(Self.table) (document TEXT PRIMARY KEY, token BLOB NOT NULL)"
        )
        try store.execute(
            "INSERT OR REPLACE INTO \(Self.table) (document, token) VALUES (?, ?)",
            [.text(origin), .blob(bytes)]
        )
    }
}
