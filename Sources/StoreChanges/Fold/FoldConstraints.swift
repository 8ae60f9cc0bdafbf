/// The constraints that hold at a place of the total order: those of the greatest schema among the sets up to it.
///
/// Example: An update of the app drops a unique index. A phone has the update when the edits of a tablet arrive that were made
/// before it. The phone folds them with the index, because devices without the update had done so.
///
/// The rows have the columns of the present schema. So an index counts only if all its columns are still there, and a
/// reference only if the present schema has it, too. A table whose key was changed has the present constraints.
struct FoldConstraints {
    /// The schema that has the constraints; `nil` if it's the present one, or has the same.
    private let earlier: SchemaDescription?
    private let present: SchemaDescription

    /// Prepares the constraints of a schema.
    ///
    /// - Parameters:
    ///   - digest: The schema's digest; the present constraints hold unless the schema is prepared.
    ///   - schema: The present schema.
    init(of digest: SetDigest?, in schema: FoldSchema) {
        present = schema.description
        earlier = schema.earlier.first { $0.digest == digest }?.description
    }

    /// Whether a unique index holds.
    func hold(_ unique: FoldSchema.Unique, of table: String) -> Bool {
        guard let former = former(table) else { return unique.isPresent }
        return former.uniques.contains(unique.description)
    }

    /// What happens to a row when the row goes to which a reference leads; `nil` if the reference doesn't hold.
    func action(of reference: FoldSchema.Reference, of table: String) -> ForeignKey.Action? {
        guard let former = former(table) else { return reference.key.onDelete }
        let equal = former.references.first {
            $0.columns == reference.key.columns && $0.parent == reference.parent
                && $0.parentColumns == reference.key.parentColumns
        }
        return equal.flatMap { ForeignKey.Action(rawValue: $0.onDelete) }
    }

    /// The table of the earlier schema, if its constraints hold.
    private func former(_ table: String) -> SchemaDescription.Table? {
        earlier?.tables[table].flatMap { $0.hasKey(of: present.tables[table]) ? $0 : nil }
    }
}

/// An earlier schema with other constraints than the present one.
struct EarlierSchema {
    let digest: SetDigest
    let description: SchemaDescription
}

extension SchemaDescription {
    /// Whether sets of another schema are folded by the same constraints as those of this one.
    func hasConstraints(of other: SchemaDescription) -> Bool {
        tables.allSatisfy { name, table in
            guard let others = other.tables[name], table.hasKey(of: others) else { return true }
            return table.uniques == others.uniques
                && table.references.filter { $0.columns.allSatisfy { others.columns[$0] != nil } }
                    == others.references.filter { $0.columns.allSatisfy { table.columns[$0] != nil } }
        }
    }

    /// The unique indexes of a table that only earlier schemas have, and whose columns are still there.
    func earlierUniques(of table: TableSchema, in earlier: [SchemaDescription]) -> Set<Unique> {
        guard let present = tables[table.name] else { return [] }
        let columns = Set((table.columns.map(\.name) + table.generatedColumns).map(\.sqlName))
        let former = earlier.compactMap { $0.tables[table.name] }.filter { $0.hasKey(of: present) }
        let uniques = former.flatMap { former in
            former.uniques.filter { columns.isSuperset(of: $0.columns(of: former).map(\.sqlName)) }
        }
        return Set(uniques).subtracting(present.uniques)
    }
}

extension SchemaDescription.Unique {
    /// The columns of its table that it names; what is in quotes is one, too, since SQLite takes it for text otherwise.
    fileprivate func columns(of table: SchemaDescription.Table) -> [String] {
        let expressions = terms.filter { !$0.isColumn }.map(\.text) + (condition.map { [$0] } ?? [])
        let tokens = expressions.flatMap { SQLTokens($0).tokens }
        let stored = Set(table.columns.keys.map(\.sqlName))
        let named = tokens.compactMap { token in
            switch token {
            case .quoted(let name): name
            case .word(let name) where stored.contains(name.sqlName): name
            default: nil
            }
        }
        return terms.filter(\.isColumn).map(\.text) + named
    }
}

extension UniqueIndex {
    /// The index of a description; `nil` if it's of an unknown kind.
    init?(_ description: SchemaDescription.Unique) {
        guard let kind = Kind(rawValue: description.kind) else { return nil }
        let terms = description.terms.compactMap { term -> Term? in
            guard let collation = Collation(rawValue: term.collation) else { return nil }
            let expression = term.isColumn ? term.text.quotedName : term.text
            return Term(column: term.isColumn ? term.text : nil, expression: expression, collation: collation)
        }
        guard terms.count == description.terms.count else { return nil }
        self.init(terms: terms, condition: description.condition, kind: kind)
    }
}

extension SchemaDescription.Table {
    /// Whether rows have the same names in a table of another schema.
    fileprivate func hasKey(of other: Self?) -> Bool { keyKind == other?.keyKind && keyColumns == other?.keyColumns }
}
