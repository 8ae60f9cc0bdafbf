/// The statements that update rows of a table, by the columns that they write.
final class UpdateStatements {
    /// The condition that only the row of a number fulfils.
    let numberCondition: String
    private let table: String
    private var statements: [[String]: [String: String]] = [:]

    init(_ table: FoldSchema.Table) {
        self.table = table.schema.name.quotedName
        numberCondition = "\(table.schema.key.columns.first?.quotedName ?? "rowid") = ?"
    }

    func statement(_ columns: [String], _ condition: String) -> String {
        if let known = statements[columns]?[condition] { return known }
        let assignments = columns.map { "\($0.quotedName) = ?" }.joined(separator: ", ")
        let statement = "UPDATE \(table) SET \(assignments) WHERE \(condition)"
        statements[columns, default: [:]][condition] = statement
        return statement
    }
}
