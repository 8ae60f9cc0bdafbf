import GRDB
import StoreChanges
import Testing

@Suite("The questions that a schema raises")
struct SchemaQuestionsTests {
    private func questions(on table: String, _ sql: String) throws -> [String] {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try StoreSchema(db)
        }
        let report = try #require(schema.reports.first { $0.table == table })
        #expect(report.synchronizes)
        return report.questions
    }

    @Test(
        "A foreign key of a generated column, or to one, is reported, because merging doesn't follow it",
        arguments: [
            ("INT AS (data ->> 'folder') REFERENCES folder", "(Link) → folder(id): SQLite computes Link"),
            ("INT AS (data ->> 'folder') STORED REFERENCES folder", "(Link) → folder(id): SQLite computes Link"),
            ("TEXT REFERENCES folder (CODE)", "(Link) → folder(CODE): SQLite computes CODE"),
            ("INT REFERENCES folder", nil), ("TEXT REFERENCES folder (name)", nil),
        ]
    )
    func generatedReferences(definition: String, beginning: String?) throws {
        let questions = try questions(
            on: "note",
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT UNIQUE, code TEXT AS (lower(name)) UNIQUE);
            CREATE TABLE note (id INTEGER PRIMARY KEY, data TEXT, Link \(definition));
            """
        )
        #expect(questions.count == (beginning == nil ? 0 : 1))
        if let beginning { #expect(questions.first?.hasPrefix(beginning) == true, "\(questions)") }
    }
}
