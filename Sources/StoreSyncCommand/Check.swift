import ArgumentParser
import Foundation
import StoreChanges

/// `storesync check`: says which tables of a store synchronize record by record, and what to do about the others.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Says which tables of a store synchronize, by which key, and what is doubtful. Writes nothing."
    )

    @Argument(help: "The SQLite database.")
    var store: String

    @Option(help: ArgumentHelp("What the schema doesn't say, in JSON.", valueName: "file"))
    var rules: String?

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        struct Table: Encodable {
            let table: String
            let key: String?
            let synchronizes: Bool
            let reason: String?
            let questions: [String]

            private enum CodingKeys: CodingKey {
                case table, key, synchronizes, reason, questions
            }

            // The synthesized method would leave out a key or a reason that is `nil`.
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(table, forKey: .table)
                try container.encode(key, forKey: .key)
                try container.encode(synchronizes, forKey: .synchronizes)
                try container.encode(reason, forKey: .reason)
                try container.encode(questions, forKey: .questions)
            }
        }
        var command = "check"
        let tables: [Table]
    }

    func run() async throws {
        try await Session.run(options.output) { _ in
            let schema = try StoreSchema(
                storeAt: URL(storeAt: store),
                rules: try rules.map { try SyncRules(readingFileAt: $0) } ?? .none
            )
            let tables = schema.reports.map { report in
                Result.Table(
                    table: report.table,
                    key: report.key.flatMap { $0.columns.isEmpty ? nil : $0.columns.joined(separator: ", ") },
                    synchronizes: report.synchronizes,
                    reason: report.reason,
                    questions: report.questions
                )
            }
            try Report(options.output).result(Result(tables: tables), lines: lines(schema))
        }
    }

    private func lines(_ schema: StoreSchema) -> [String] {
        schema.reports.isEmpty
            ? ["\(store) is an empty database: it has no tables, so there is nothing to synchronize."]
            : schema.reports.flatMap(lines)
    }

    private func lines(_ report: TableReport) -> [String] {
        guard let key = report.key else { return ["✗ \(report.table): \(report.reason ?? "")"] }
        return ["✓ \(report.table): \(key)"] + report.questions.map { "    ? \($0)" }
    }
}
