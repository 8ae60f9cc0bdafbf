import GRDB

/// What a schema leaves open, each with what to do about it.
struct SchemaQuestions {
    private let table: TableSchema
    private let schema: StoreSchema

    init(_ table: TableSchema, _ schema: StoreSchema) {
        self.table = table
        self.schema = schema
    }

    /// The questions that the schema alone raises, and that the rules don't answer.
    func all(_ likelyParents: LikelyParents, _ rules: SyncRules) -> [String] {
        key + references + undeclaredReferences(likelyParents) + positions(besides: rules) + orderedNumbers
            + limitedNumbers + numbersInConditions
    }

    /// Why the table can't synchronize: no table gives its rows their names, a column refers to rows that can't stay the same
    /// on all devices, or merging doesn't know the numbers from which a unique value is calculated.
    func exclusion(_ rowColumns: RowColumns) -> String? {
        if rowColumns.unnamedTables.contains(table.name) {
            return """
                By foreign keys, its rows have the numbers of other tables whose keys refer to each other, and each device \
                numbers rows by itself. Remove a foreign key between these keys to synchronize it, or name all these tables in \
                the rules ("meaningfulKeys").
                """
        }
        if let column = rowColumns.ambiguousColumn(of: table.name) {
            let numbered = column.numberedTables.joined(separator: " and ")
            return """
                By foreign keys, \(column.name) has values of \(column.parents.joined(separator: " and ")), but numbers of \
                \(numbered) differ between devices, so a value can't lead to the same rows everywhere. Give each foreign key \
                columns of its own to synchronize it, let all columns that hold the same numbers refer to the same table, or \
                name \(numbered) in the rules ("meaningfulKeys").
                """
        }
        return table.uniqueCalculating(with: numberColumns).map { unique in
            """
            The unique value \(unique.description) is calculated from numbers that differ between devices. Make the columns \
            themselves unique to synchronize it.
            """
        }
    }

    private var key: [String] {
        guard table.key == .none else { return [] }
        return [
            """
            It has no key: an edit of a row is a delete and an insert, and two devices that insert the same row \
            make two. Add a primary key if rows are things of their own.
            """
        ]
    }

    /// References that travel as plain values, or that merging doesn't follow.
    private var references: [String] {
        table.references.compactMap { reference in
            guard let parent = schema.table(reference.parent) else {
                return """
                    \(reference.description): \(reference.parent) doesn't synchronize, so the values of these columns \
                    travel as they are.
                    """
            }
            let column =
                reference.columns.first { table.generates($0) }
                ?? reference.parentColumns.first { parent.generates($0) }
            return column.map { column in
                """
                \(reference.description): SQLite computes \(column), and merging doesn't follow references of generated \
                columns. Where it deletes or renumbers a row of \(parent.name), the reference leads to no row or to \
                another one. Declare the foreign key on columns that are stored.
                """
            }
        }
    }

    /// Columns that look like references to a table whose numbers differ between devices.
    private func undeclaredReferences(_ likelyParents: LikelyParents) -> [String] {
        let declared = Set(table.references.flatMap(\.columns).map(\.sqlName))
        // A natural key may consist of references, as that of a table that joins two others does.
        let ownNumber: String? =
            switch table.key {
            case .integer(let column), .meaningful(let column): column
            case .natural, .none: nil
            }
        return table.columns.compactMap { column -> String? in
            guard column.affinity == .integer, !declared.contains(column.name.sqlName) else { return nil }
            if let parent = likelyParents.table(of: column.name, in: table) {
                return """
                    Does \(column.name) hold numbers of \(parent)? They differ between devices: declare it as a \
                    foreign key, or as a reference in the rules ("references").
                    """
            }
            guard column.name != ownNumber, likelyParents.mayHoldRowNumbers(column.name) else { return nil }
            return """
                Does \(column.name) hold numbers of rows? They differ between devices: declare it as a foreign key, or as a \
                reference in the rules ("references"). If they are of several tables, refer to the rows by a UUID. Numbers \
                that a server assigns are the same on all devices and need no reference.
                """
        }
    }

    private func positions(besides rules: SyncRules) -> [String] {
        table.uniques.filter { table.isPosition($0) && rules.kind(of: $0, in: table) == nil }.map { unique in
            """
            \(unique.description) is taken for a position in a list: where two rows want the same one, one moves to \
            the end. If such rows are the same thing, say "identity" in the rules ("uniques").
            """
        }
    }

    /// Constraints that compare numbers by their order, which differs between devices.
    private var orderedNumbers: [String] {
        table.checks.filter(comparesNumbers).map { check in
            """
            A CHECK compares \(check.columns.sorted().joined(separator: " and ")) by their order. These numbers \
            differ between devices, and a device writes no row that a constraint refuses: name such rows by a UUID.
            """
        }
    }

    private func comparesNumbers(_ check: CheckConstraint) -> Bool {
        let numbers = Set(numberColumns.map(\.sqlName.quotedName))
        // Two symbols are a token each: `<=`, but also `<>`.
        let tokens = check.expression.filter { $0 != "=" }
        return zip(tokens.indices, tokens).contains { index, token in
            guard token == "<" || token == ">", index > 0, index + 1 < tokens.count else { return false }
            return numbers.contains(tokens[index - 1]) && numbers.contains(tokens[index + 1])
        }
    }

    /// Constraints that may refuse numbers that a device gives its rows.
    private var limitedNumbers: [String] {
        switch table.key {
        case .integer(let key):
            let isLimited = table.checks.contains {
                $0.expression.contains(key.sqlName.quotedName) && !comparesNumbers($0)
                    && !$0.allowsPositiveNumbers(in: key)
            }
            guard isLimited else { return [] }
            return [
                """
                Does a CHECK allow only some numbers in \(key)? Every device numbers the rows by itself, and writes no row \
                that a constraint refuses. If the numbers mean something, name the table in the rules ("meaningfulKeys").
                """
            ]
        case .natural, .none:
            guard CheckConstraint.limitsRowIdentifiers(of: table) else { return [] }
            return [
                """
                Does a CHECK allow only some rowids? Every device numbers the rows by itself, and writes no row that a \
                constraint refuses. If the numbers mean something, declare a column INTEGER PRIMARY KEY, and name the table \
                in the rules ("meaningfulKeys").
                """
            ]
        case .meaningful: return []
        }
    }

    /// Unique indexes whose rows depend on numbers that differ between devices.
    private var numbersInConditions: [String] {
        table.uniquesWithConditions(on: numberColumns).map { unique in
            """
            \(unique.description): the condition depends on numbers that differ between devices, so the index may have a \
            row on one device and not on another. Then rows are merged that their device allowed, or a store refuses a \
            row. Only test such columns for NULL, or let another column say which rows the index has.
            """
        }
    }

    /// The columns with numbers that every device assigns by itself.
    private var numberColumns: [String] {
        var columns = table.references.filter { reference in
            guard case .integer(let key) = schema.table(reference.parent)?.key else { return false }
            return reference.parentColumns.allSatisfy { $0.isSameName(as: key) }
        }.flatMap(\.columns)
        if case .integer(let key) = table.key { columns.append(key) }
        return columns
    }

    /// The questions that the table's rows raise.
    ///
    /// - Parameter db: A connection to the store.
    /// - Returns: The questions.
    /// - Throws: `DatabaseError`.
    func about(rowsIn db: Database) throws -> [String] { try meaning(of: db) + nullKeys(in: db) + triggers(in: db) }

    /// Triggers that fail on this connection: SQLite finds that before it executes a statement that runs them.
    private func triggers(in db: Database) throws -> [String] {
        let trigger = "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        guard try Row.fetchOne(db, sql: trigger, arguments: [table.name]) != nil else { return [] }
        let connection = SQLConnection(db)
        // As edits of other devices are written.
        let formerForeignKeys = try connection.set(.foreignKeys, enabled: false)
        defer { _ = try? connection.set(.foreignKeys, enabled: formerForeignKeys) }
        let formerQuotes = try connection.set(.doubleQuotedText, enabled: true)
        defer { _ = try? connection.set(.doubleQuotedText, enabled: formerQuotes) }
        let name = table.name.quotedName
        let columns = table.columns.map { "\($0.name.quotedName) = \($0.name.quotedName)" }.joined(separator: ", ")
        do {
            for statement in [
                "INSERT INTO \(name) DEFAULT VALUES", "UPDATE \(name) SET \(columns)", "DELETE FROM \(name)",
            ] {
                _ = try db.makeStatement(sql: statement)
            }
            return []
        } catch let error as DatabaseError {
            return [
                """
                Its triggers need what only the app has (\(error.message ?? error.resultCode.description)), so they don't run for \
                other devices' edits, and what they keep up to date gets stale. Let the app synchronize through its own connection.
                """
            ]
        }
    }

    /// Numbers that a device hardly assigned: 0, negative ones, years, and 1 in a table with a single row.
    private func meaning(of db: Database) throws -> [String] {
        guard case .integer(let column) = table.key else { return [] }
        let (name, key) = (table.name.quotedName, column.quotedName)
        guard
            let row = try Row.fetchOne(
                db,
                sql: "SELECT (SELECT min(\(key)) FROM \(name)), (SELECT max(\(key)) FROM \(name))"
            ), let minimum: Int64 = row[0], let maximum: Int64 = row[1]
        else { return [] }
        let isReferenced = schema.tables.contains { other in
            other.references.contains { $0.parent.isSameName(as: table.name) }
        }
        // Many a table begins with row 1; only a table of such a name has a single row for good.
        let isNamedForOne = ["config", "meta", "option", "preference", "profile", "setting", "state"].contains {
            table.name.sqlName.contains($0)
        }
        let isSingle = minimum == maximum && minimum == 1 && !isReferenced && isNamedForOne
        guard minimum <= 0 || isSingle || (1800...2200).contains(minimum) && maximum <= 2200 else { return [] }
        return [
            """
            Do the numbers in \(column) mean something (\(minimum) to \(maximum))? Then name the table in the rules \
            ("meaningfulKeys"); otherwise every device numbers the rows by itself.
            """
        ]
    }

    private func nullKeys(in db: Database) throws -> [String] {
        guard case .natural(let columns) = table.key else { return [] }
        let nullable = columns.filter { table.column($0)?.isNotNull == false }
        guard !nullable.isEmpty else { return [] }
        let condition = nullable.map { "\($0.quotedName) IS NULL" }.joined(separator: " OR ")
        let hasNull = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM \(table.name.quotedName) WHERE \(condition))"
        )
        guard hasNull == true else { return [] }
        return [
            """
            Some rows have NULL in their key (\(columns.joined(separator: ", "))): they are counted like rows of a \
            table without a key. Declare the columns NOT NULL to avoid that.
            """
        ]
    }
}

/// The tables to which columns probably refer, by their names: `tag`, `tags`, `tag_id`, `tags_id` or `tagid` to a table `tags`,
/// and `category` to `categories`.
struct LikelyParents {
    /// The tables by the columns that end with a key's name, as `tag_id`.
    private var tables: [String: String] = [:]
    /// The tables by their own names, as `tag`.
    private var named: [String: String] = [:]

    init(of schema: StoreSchema) {
        for table in schema.tables {
            guard case .integer(let key) = table.key else { continue }
            let name = table.name.sqlName
            var names = [name]
            if name.hasSuffix("s") { names.append(String(name.dropLast())) }
            if name.hasSuffix("ies") { names.append(name.dropLast(3) + "y") }
            for name in names {
                named[name] = named[name] ?? table.name
                for column in [name + "_" + key.sqlName, name + key.sqlName, name + "_id", name + "id"] {
                    tables[column] = tables[column] ?? table.name
                }
            }
        }
    }

    /// The table to which a column probably refers; `nil` for a table's own key, and for a column named as its table.
    func table(of column: String, in table: TableSchema) -> String? {
        if case .meaningful = table.key, table.key.columns.contains(column) { return nil }
        if let parent = tables[column.sqlName] {
            return parent == table.name && table.key.columns.contains(column) ? nil : parent
        }
        if let parent = named[column.sqlName], parent != table.name { return parent }
        let isParent = ["parent", "parent_id", "parentid"].contains(column.sqlName)
        return if case .integer = table.key, isParent { table.name } else { nil }
    }

    /// Whether a column's name says that it holds numbers of rows, as `record_id` or `ownerId`, but not of which table.
    func mayHoldRowNumbers(_ column: String) -> Bool {
        guard !tables.isEmpty else { return false }
        return column.sqlName.hasSuffix("_id")
            || ["Id", "ID"].contains { column.hasSuffix($0) && column.dropLast(2).last?.isLowercase == true }
    }
}
