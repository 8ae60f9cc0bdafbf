import GRDB
import Testing

@testable import StoreChanges

@Suite("Statements on a connection of GRDB", .timeLimit(.minutes(60)))
struct SQLConnectionTests {
    @Test("GRDB's note of what statements read doesn't grow with the number of statements")
    func notedColumns() throws {
        let columns = (0..<20).map { "column\($0)" }
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE note (\(columns.joined(separator: ", ")))")
            let connection = SQLConnection(db)
            for column in columns {
                for prepare in [connection.prepare, connection.prepareApart] {
                    _ = try prepare("SELECT \(column) FROM note")
                    // The note has no public name.
                    let authorizer = "$__lazy_storage_$_authorizer"
                    let note = try #require(Mirror(reflecting: db).descendant(authorizer, "some", "selectedRegion"))
                    #expect("\(note)" == "note(\(column))")
                }
            }
        }
    }
}
