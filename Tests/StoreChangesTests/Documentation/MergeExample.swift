import Foundation
import Testing

/// An example of the article “What merges how”: a table of what two devices did, and of what they have then.
struct MergeExample: CustomTestStringConvertible {
    /// A row of the table: what it is about, and the code in its cell.
    struct Line {
        var label: String
        var code: [String]
    }

    /// The heading, and the number of the table below it.
    var title: String
    /// The statements that create the store.
    var schema: String
    var lines: [Line]

    var testDescription: String { title }

    /// The code of the line with a label; `nil` if there is no such line.
    subscript(label: String) -> [String]? { lines.first { $0.label == label }?.code }

    /// What the devices did, in this order.
    var steps: [(device: String, statements: [String])] {
        lines.compactMap { line in
            let words = line.label.split(whereSeparator: { " ,".contains($0) }).map { $0.lowercased() }
            guard let device = words.first, ["laptop", "desktop"].contains(device) else { return nil }
            return (device, line.code)
        }
    }
}

extension MergeExample {
    /// The examples of an article: each table, with the last statements in SQL before it.
    static func all(in article: String) -> [MergeExample] {
        var (title, schema, number, isSQL) = ("", "", 0, false)
        var lines: [Line] = []
        var examples: [MergeExample] = []
        func end() {
            if !lines.isEmpty {
                examples.append(MergeExample(title: "\(title) \(number)", schema: schema, lines: lines))
            }
            lines = []
        }
        for line in article.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("#") {
                (title, number) = (line.drop { "# ".contains($0) }.description, 0)
            } else if line == "```sql" {
                (schema, isSQL) = ("", true)
            } else if line == "```" {
                isSQL = false
            } else if isSQL {
                schema += line + "\n"
            } else if line == "|---|---|" {
                number += 1
            } else if line.hasPrefix("| "), let cut = line.dropFirst(2).range(of: " | ") {
                let code = line[cut.upperBound...].split(separator: "`", omittingEmptySubsequences: false)
                lines.append(
                    Line(
                        label: String(line[line.index(line.startIndex, offsetBy: 2)..<cut.lowerBound]),
                        code: code.enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }
                    )
                )
            }
            if !line.hasPrefix("|") { end() }
        }
        end()
        return examples
    }
}
