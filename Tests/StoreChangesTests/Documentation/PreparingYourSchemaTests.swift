import Foundation
import StoreChanges
import Testing

@Suite("Preparing a schema", .timeLimit(.minutes(60)))
struct PreparingYourSchemaTests {
    /// A change of the article's table.
    struct SchemaChange: CustomTestStringConvertible {
        var statements: String
        var continues: Bool

        var testDescription: String { statements }
    }

    private static let article = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Sources/StoreSync/StoreSync.docc/PreparingYourSchema.md")

    /// The store of the article's section, and the lines of its table.
    private static let section: (schema: String, changes: [SchemaChange]) = {
        guard let text = try? String(contentsOf: article, encoding: .utf8),
            let section = text.components(separatedBy: "## Updates of the app").last,
            let schema = section.components(separatedBy: "```sql\n").last?.components(separatedBy: "```").first
        else { return ("", []) }
        let lines = section.split(separator: "\n").filter { $0.hasPrefix("| `") }
        let changes = lines.map { line in
            let code = line.split(separator: "`").enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
            return SchemaChange(statements: code.joined(separator: "; "), continues: line.hasSuffix("| continue |"))
        }
        return (schema, changes)
    }()

    @Test("An older app continues or waits as the article's table says, and an updated one always continues")
    func compatibility() throws {
        #expect(Self.section.changes.count == 14)
        #expect(Set(Self.section.changes.map(\.continues)) == [true, false])
        for change in Self.section.changes {
            let devices = try ["laptop", "phone"].map { try SimulatedDevice($0, schemaSQL: Self.section.schema) }
            let (laptop, phone) = (devices[0], devices[1])
            try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
            try laptop.capture(at: 10)
            try phone.integrate(laptop.sets)
            for device in devices { try device.write() }

            try laptop.migrate(change.statements)
            try laptop.edit("INSERT INTO folder VALUES ('of the updated')")
            if change.continues { try laptop.edit("INSERT INTO note (title) VALUES ('bread')") }
            try laptop.capture(at: 20)
            try phone.edit("INSERT INTO folder VALUES ('of the older')")
            try phone.edit("UPDATE note SET body = 'one litre'")
            try phone.capture(at: 30)
            try phone.integrate(laptop.sets)
            try laptop.integrate(phone.sets)
            for device in devices { try device.write() }
            #expect(try !laptop.needsNewerSchema(), "\(change)")
            #expect(try laptop.rows("SELECT count(*) FROM folder") == ["2"], "\(change)")
            #expect(try phone.needsNewerSchema() == !change.continues, "\(change)")
            for table in ["folder", "note"] {
                let count = try phone.rows("SELECT count(*) FROM \(table)")
                #expect(count == [change.continues ? "2" : "1"], "\(change)")
            }
        }
    }
}
