package import Foundation

/// What a document's author says of its tables where their schema doesn't.
///
/// As a file, it's JSON:
///
/// ```json
/// {
///     "excludedTables": ["cache"],
///     "references": [{ "table": "note", "columns": ["folder"], "parent": "folder" }],
///     "meaningfulKeys": ["settings"],
///     "uniques": [{ "table": "song", "columns": ["album", "track"], "kind": "position" }]
/// }
/// ```
public struct SyncRules: Codable, Hashable, Sendable {
    /// A reference that the schema doesn't declare.
    public struct Reference: Codable, Hashable, Sendable {
        /// The table that refers to another one.
        public var table: String
        /// The columns that refer to it.
        public var columns: [String]
        /// The other table.
        public var parent: String
        /// The columns to which they refer; the other table's primary key without them.
        public var parentColumns: [String]?

        /// Creates a reference.
        public init(table: String, columns: [String], parent: String, parentColumns: [String]? = nil) {
            self.table = table
            self.columns = columns
            self.parent = parent
            self.parentColumns = parentColumns
        }
    }

    /// What a clash of a unique index means.
    public struct Unique: Codable, Hashable, Sendable {
        /// The table.
        public var table: String
        /// The columns of the index.
        public var columns: [String]
        /// What a clash means.
        public var kind: UniqueIndex.Kind

        /// Creates a rule.
        public init(table: String, columns: [String], kind: UniqueIndex.Kind) {
            self.table = table
            self.columns = columns
            self.kind = kind
        }
    }

    /// Tables that don't synchronize.
    public var excludedTables: [String]
    /// References that the schema doesn't declare.
    public var references: [Reference]
    /// Tables whose integer keys mean something, such as a year.
    public var meaningfulKeys: [String]
    /// What clashes of unique indexes mean.
    public var uniques: [Unique]

    /// Rules that say nothing.
    public static let none = SyncRules()

    /// Creates rules.
    public init(
        excludedTables: [String] = [],
        references: [Reference] = [],
        meaningfulKeys: [String] = [],
        uniques: [Unique] = []
    ) {
        self.excludedTables = excludedTables
        self.references = references
        self.meaningfulKeys = meaningfulKeys
        self.uniques = uniques
    }

    private enum CodingKeys: String, CodingKey, CaseIterable {
        case excludedTables, references, meaningfulKeys, uniques
    }

    /// Reads rules, of which every part may be missing.
    ///
    /// - Parameter decoder: The decoder.
    /// - Throws: `DecodingError`, also for a part that it doesn't know: a misspelt rule would be ignored silently.
    public init(from decoder: any Decoder) throws {
        let all = try decoder.container(keyedBy: AnyKey.self)
        if let unknown = all.allKeys.first(where: { CodingKeys(stringValue: $0.stringValue) == nil }) {
            let known = CodingKeys.allCases.map(\.stringValue).joined(separator: ", ")
            throw DecodingError.dataCorruptedError(
                forKey: unknown,
                in: all,
                debugDescription: "The rules have no part “\(unknown.stringValue)”; the parts are \(known)."
            )
        }
        let container = try decoder.container(keyedBy: CodingKeys.self)
        excludedTables = try container.decodeIfPresent([String].self, forKey: .excludedTables) ?? []
        references = try container.decodeIfPresent([Reference].self, forKey: .references) ?? []
        meaningfulKeys = try container.decodeIfPresent([String].self, forKey: .meaningfulKeys) ?? []
        uniques = try container.decodeIfPresent([Unique].self, forKey: .uniques) ?? []
    }

    private struct AnyKey: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

extension SyncRules {
    /// The rules as JSON; equal rules have equal bytes.
    package var encoded: Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Strings and lists of them can always be encoded.
        return (try? encoder.encode(self)) ?? Data()
    }

    /// Reads rules.
    ///
    /// - Throws: ``StoreChangesError`` with `corrupt`.
    package init(decoding bytes: some Sequence<UInt8>) throws {
        do {
            self = try JSONDecoder().decode(SyncRules.self, from: Data(bytes))
        } catch {
            throw StoreChangesError(.corrupt, "The document's rules can't be read.", cause: error)
        }
    }
}

extension SyncRules {
    /// What the rules say of a unique index; `nil` if they say nothing.
    func kind(of unique: UniqueIndex, in table: TableSchema) -> UniqueIndex.Kind? {
        uniques.first { $0.table.isSameName(as: table.name) && $0.names(unique) }?.kind
    }
}

extension SyncRules.Unique {
    /// Whether the rule is about an index of its table: one of the same columns, in any order.
    func names(_ index: UniqueIndex) -> Bool {
        guard let columns = index.columns else { return false }
        return Set(self.columns.map(\.sqlName)) == Set(columns.map(\.sqlName))
    }
}
