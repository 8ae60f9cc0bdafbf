// Readings of the rules:

import StoreChanges

/// A plain fold, written from the rules alone.
///
/// It keeps everything in memory and searches all rows whenever it needs one, so that each function shows its rule.
struct Oracle {
    /// Whether a row, given with the cells of its key, violates a `CHECK` of its table.
    typealias CheckViolation = (RowReference, [String: Cell]) -> Bool
    /// What an index of a table has for a row; `nil` if it doesn't have the row.
    typealias IndexKey = (UniqueIndex, _ table: String, [String: Cell]) -> [Cell]?

    let schema: OracleSchema
    let violatesCheck: CheckViolation
    let indexKey: IndexKey
    let imageDigest: ([String: Cell]) -> SetDigest

    /// Creates a fold.
    ///
    /// - Parameters:
    ///   - schema: The tables.
    ///   - violatesCheck: Evaluates the `CHECK` constraints.
    ///   - indexKey: Evaluates partial and expression indexes; without it every index is taken for one of plain columns.
    ///   - imageDigest: The digest that a delete has of the cells outside the key.
    init(
        schema: StoreSchema,
        violatesCheck: @escaping CheckViolation = { _, _ in false },
        indexKey: @escaping IndexKey = { unique, _, cells in
            unique.terms.map { cells[$0.column ?? ""] ?? .value(.null) }
        },
        imageDigest: @escaping ([String: Cell]) -> SetDigest = Oracle.digest
    ) {
        self.schema = OracleSchema(schema)
        self.violatesCheck = violatesCheck
        self.indexKey = indexKey
        self.imageDigest = imageDigest
    }

    /// Folds sets, given in any order, over a state in the total order (stamp, client, sequence).
    func fold(
        _ sets: [SyncChangeSet],
        over content: StateContent
    ) throws -> (content: StateContent, conflicts: [Conflict]) {
        var content = content
        var conflicts: [Conflict] = []
        for set in sets.sorted(by: { $0.header.position < $1.header.position }) {
            var integration = Integration(self, set, over: content)
            try integration.run()
            content = integration.content
            conflicts += integration.conflicts
        }
        return (content, conflicts)
    }

    /// The digest of a row: of its cells outside the key, in ascending order of the columns.
    static func digest(of cells: [String: Cell]) -> SetDigest {
        SetDigest(of: cells.keys.sorted(by: bytewise).flatMap { cells[$0]?.encoded ?? [] })
    }
}

/// Why the oracle gave up.
enum OracleError: Error, Equatable {
    case unknownTable(String)
    case repairsDoNotEnd(SetID)
}

/// Compares names by their bytes, which is the same on every platform.
func bytewise(_ first: String, _ second: String) -> Bool { first.utf8.lexicographicallyPrecedes(second.utf8) }
