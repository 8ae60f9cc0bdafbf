import GRDB
import OperationsTesting
import StoreChanges
import TestSupport

/// Random statements of an app, for any schema, over few values, so that edits meet.
struct RandomEdits {
    private let schema: StoreSchema
    /// From how many rows at both ends of a table a statement chooses.
    private let reach: Int

    init(_ schema: StoreSchema, reach: Int = 3) {
        self.schema = schema
        self.reach = reach
    }

    /// A statement that inserts as many rows as the constraints of a table allow.
    static func filling(_ table: TableSchema, count: Int) -> String {
        let names = table.columns.map { "\"\($0.name)\"" }.joined(separator: ", ")
        let values = table.columns.map { column in
            switch column.affinity {
            case .integer: "n"
            case .real, .numeric, .blob: "n / 2.0"
            case .text: "'text ' || n"
            }
        }
        return """
            WITH RECURSIVE numbers (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM numbers LIMIT \(count))
            INSERT OR IGNORE INTO "\(table.name)" (\(names)) SELECT \(values.joined(separator: ", ")) FROM numbers
            """
    }

    func statement(using random: inout some RandomNumberGenerator) -> String {
        guard let table = schema.tables.randomElement(using: &random) else { return "" }
        let name = "\"\(table.name)\""
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<3:
            let columns = table.columns.filter { !isIntegerKey($0.name, table) || random.chance(20) }
            let names = columns.map { "\"\($0.name)\"" }.joined(separator: ", ")
            let values = columns.map { value(of: $0, table, using: &random) }.joined(separator: ", ")
            // Replacing runs no triggers for the rows that go, so an app whose index depends on them doesn't do it.
            let replaces = !schema.reports.contains { $0.table == "search" } && random.chance(15)
            let verb = replaces ? "INSERT OR REPLACE" : "INSERT"
            return "\(verb) INTO \(name) (\(names)) VALUES (\(values))"
        case 3..<8:
            let columns = table.columns.filter { !isIntegerKey($0.name, table) || random.chance(10) }
            guard let column = columns.randomElement(using: &random) else { return "" }
            let value = value(of: column, table, using: &random)
            return "UPDATE \(name) SET \"\(column.name)\" = \(value) WHERE \(condition(table, using: &random))"
        default:
            return "DELETE FROM \(name) WHERE \(condition(table, using: &random))"
        }
    }

    private func isIntegerKey(_ column: String, _ table: TableSchema) -> Bool { table.key == .integer(column: column) }

    private func condition(_ table: TableSchema, using random: inout some RandomNumberGenerator) -> String {
        let order = random.chance(50) ? "" : " DESC"
        let column = table.key.columns.first ?? table.columns[0].name
        let offset = Int.random(in: 0..<reach, using: &random)
        return """
            "\(column)" IS (SELECT "\(column)" FROM "\(table.name)" ORDER BY "\(column)"\(order) LIMIT 1 OFFSET \(offset))
            """
    }

    private func value(
        of column: ColumnSchema,
        _ table: TableSchema,
        using random: inout some RandomNumberGenerator
    ) -> String {
        let reference = table.references.first { $0.columns.contains(column.name) }
        if let reference, let index = reference.columns.firstIndex(of: column.name), !random.chance(15) {
            let parentColumn = reference.parentColumns[index]
            let offset = Int.random(in: 0..<reach, using: &random)
            return "(SELECT \"\(parentColumn)\" FROM \"\(reference.parent)\" ORDER BY 1 LIMIT 1 OFFSET \(offset))"
        }
        if !column.isNotNull, random.chance(10) { return "NULL" }
        switch column.affinity {
        case .integer: return "\(Int.random(in: 1...4, using: &random))"
        case .real: return ["1.5", "2", "-0.5"].randomElement(using: &random) ?? "0"
        case .numeric, .blob: return ["1", "1.0", "'a'", "x'00'", "2"].randomElement(using: &random) ?? "0"
        case .text:
            return ["'a'", "'b'", "'A'", "'c '", "'long text that is longer than any name here'"].randomElement(
                using: &random
            ) ?? "''"
        }
    }
}
