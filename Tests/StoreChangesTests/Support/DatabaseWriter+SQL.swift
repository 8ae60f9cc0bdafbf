import GRDB

extension DatabaseWriter {
    /// Executes statements of the app in a transaction.
    func execute(_ sql: String) throws { try write { try $0.execute(sql: sql) } }

    /// The first column of a query's rows.
    func query(_ sql: String) throws -> [String] { try read { try String.fetchAll($0, sql: sql) } }

    /// The titles of the notes, in their order.
    func titles() throws -> [String] { try query("SELECT title FROM note ORDER BY title") }
}
