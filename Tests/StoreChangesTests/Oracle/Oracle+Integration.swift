import StoreChanges

extension Oracle {
    /// The integration of one set.
    struct Integration {
        /// What a set and its repairs did to a row.
        struct Trace {
            /// Where a row comes from; a lower one stays when rows are merged.
            enum Origin {
                case before
                case inserted
                case broughtBack(Tomb)
            }

            var origin = Origin.before
            /// Whether the row refers to another row than before, because that one was merged or changed its values.
            var isMoved = false
            /// The columns that changes and repairs wrote, other than by following an alias.
            var updated: Set<String> = []
            /// All columns that were written.
            var written: Set<String> = []
            /// The columns whose references dangled in the author's store.
            var marked: Set<String> = []
            /// What the first change of the set wrote, by column.
            var firstWrites: [String: Cell] = [:]
            /// The name before the set, if it has changed.
            var formerName: RowName?
            /// The inserters of rows that were merged into this one.
            var mergedInserters: Set<SetID> = []
            /// Whether a repair wrote it, or a reference of it was led to another row than its author's.
            var isRepaired = false
            /// How often the row was repaired for the sake of each constraint.
            var attempts: [Constraint: Int] = [:]
        }

        enum Constraint: Hashable {
            case unique(UniqueIndex)
            case reference(ForeignKey)
            case check
        }

        /// A row, counted or not, with all of its cells.
        struct Entry {
            var row: RowReference
            var image: [String: Cell]
            var isCounted: Bool
        }

        let oracle: Oracle
        let set: SyncChangeSet
        /// The state before the set.
        let before: StateContent
        var content: StateContent
        var conflicts: [Conflict] = []
        var traces: [RowReference: Trace] = [:]
        /// The rows that the set's own inserts and updates are going to make.
        var ownImages: [Entry] = []
        /// Former images of rows whose referenced values the set changed.
        var formerImages: [(row: RowReference, image: [String: Cell])] = []
        /// The rows that were deleted together with a row, by a consequence or a repair.
        var dependents: [RowReference: Set<RowReference>] = [:]
        /// The earlier sets that were captured together with a change to the same schema.
        var migrations: [SyncChangeSet] = []
        /// The rows that came back; each does once.
        var returned: Set<RowReference> = []

        init(_ oracle: Oracle, _ set: SyncChangeSet, over content: StateContent) {
            self.oracle = oracle
            self.set = set
            before = content
            self.content = content
        }

        // "A set is applied whole: deletes, then updates, then inserts […]; then repairs."
        mutating func run() throws {
            for change in set.changes { _ = try oracle.schema.table(change.table) }
            endAliasesOfKnowingInserts()
            let changes = resolvedChanges(withoutRepeatedCounts())
            applyDeletes(changes)
            applyUpdates(changes)
            applyInserts(changes)
            ownImages = []
            followChangedValues()
            if set.header.isMigration { mergeMigratedRows(changes) }
            try repair()
            endAliasesOfTakenNames()
        }
    }
}

// MARK: Rows and their cells

extension Oracle.Integration {
    /// The table of a name that was checked before, or that the schema has.
    func table(_ name: String) -> TableSchema {
        guard let table = oracle.schema.tables.first(where: { $0.name == name }) else {
            preconditionFailure("the schema has no table \(name)")
        }
        return table
    }

    /// Whether the author had seen a set; its own set counts as well.
    func knows(_ other: SetID) -> Bool { other == set.header.id || set.header.hasSeen(other) }

    func image(_ row: RowReference, _ state: RowState) -> [String: Cell] {
        state.cells.merging(table(row.table).keyCells(of: row.row)) { _, key in key }
    }

    /// All cells of a row that is present.
    func image(_ row: RowReference) -> [String: Cell]? {
        if let state = content.rows[row] { return image(row, state) }
        return content.counts[row] == nil ? nil : table(row.table).countedImage(of: row.row)
    }

    /// The rows of a table, in the order of their names.
    func entries(of name: String, in content: StateContent) -> [Entry] {
        let rows = content.rows.filter { $0.key.table == name }
            .map { Entry(row: $0.key, image: image($0.key, $0.value), isCounted: false) }
        let counted = content.counts.keys.filter { $0.table == name }
            .map { Entry(row: $0, image: table(name).countedImage(of: $0.row), isCounted: true) }
        // Names are encoded once, not in each comparison.
        return (rows + counted).map { ($0.row.row.encoded, $0) }
            .sorted { $0.0.lexicographicallyPrecedes($1.0) }.map(\.1)
    }

    func entries(of name: String) -> [Entry] { entries(of: name, in: content) }

    /// The cells outside the key.
    func values(of image: [String: Cell], in table: TableSchema) -> [String: Cell] {
        image.filter { !table.key.columns.contains($0.key) }
    }

    mutating func log(
        _ rule: Conflict.Rule,
        _ row: RowReference,
        lost: [String: Cell] = [:],
        kept: [String: Cell] = [:]
    ) {
        conflicts.append(Conflict(rule, row, lost: lost, kept: kept, by: set.header.id))
    }
}

// MARK: References

extension Oracle.Integration {
    /// The cells of a reference; `nil` if one is `NULL`, so that it refers to nothing.
    func cells(of key: ForeignKey, in image: [String: Cell]) -> [Cell]? {
        let cells = key.columns.compactMap { image[$0] }
        return cells.count == key.columns.count && !cells.contains(where: \.isNull) ? cells : nil
    }

    /// Whether an image of the parent's table has the values of a reference.
    func matches(_ key: ForeignKey, _ cells: [Cell], _ parent: [String: Cell]) -> Bool {
        let found = key.parentColumns.map { parent[$0] ?? .value(.null) }
        return !found.contains(where: \.isNull) && table(key.parent).areEqual(cells, found, in: key.parentColumns)
    }

    /// Whether a reference finds its parent among the rows of a state.
    func hasParent(_ key: ForeignKey, _ cells: [Cell], in content: StateContent) -> Bool {
        entries(of: key.parent, in: content).contains { matches(key, cells, $0.image) }
    }

    // "References of 0 or less […] travel as they are."
    func isLeftAlone(_ key: ForeignKey, _ cells: [Cell]) -> Bool {
        zip(key.parentColumns, cells).contains { column, cell in
            guard case .value(.integer(let number)) = cell, number <= 0 else { return false }
            return oracle.schema.holdsNames(column, of: key.parent)
        }
    }

    /// Whether a reference of a row leads nowhere, marked or not.
    func dangles(_ key: ForeignKey, _ image: [String: Cell]) -> Bool {
        guard let cells = cells(of: key, in: image), !isLeftAlone(key, cells) else { return false }
        return !hasParent(key, cells, in: content)
    }

    func isMarked(_ key: ForeignKey, _ row: RowReference) -> Bool {
        traces[row]?.marked.isDisjoint(with: key.columns) == false
    }

    /// The deleted row to which a reference leads, unless the author of the set had seen a set that deleted it: first among
    /// the rows that this set alone deleted, then the least.
    func tomb(of key: ForeignKey, _ cells: [Cell]) -> RowReference? {
        func isOld(_ tomb: Tomb) -> Bool { tomb.deleters != [set.header.id] }
        return content.tombs.filter { $0.key.table == key.parent && matches(key, cells, image($0.key, $0.value.row)) }
            .filter { !$0.value.deleters.contains(where: set.header.hasSeen) }
            .min { first, second in
                let (isFirstOld, isSecondOld) = (isOld(first.value), isOld(second.value))
                return isFirstOld == isSecondOld ? first.key < second.key : isSecondOld
            }?.key
    }
}
