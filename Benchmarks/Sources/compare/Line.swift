import Foundation

/// A line of the table.
struct Line {
    var cells: [String]
    /// Whether the target is met; `nil` without a target.
    var isMet: Bool?
    /// Whether the target is independent of the machine's speed.
    var isMatterOfCorrectness = false

    /// Prints lines as a table, with the first line as the heading.
    static func print(_ lines: [Line]) {
        let rows = lines.enumerated().map { number, line in
            number == 0 ? line.cells : line.cells + [line.isMet.map { $0 ? "yes" : "NO" } ?? ""]
        }
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in
            rows.map { $0.count > column ? $0[column].count : 0 }.max() ?? 0
        }
        for (number, row) in rows.enumerated() {
            let cells = row.enumerated().map { column, cell in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 ? cell + padding : padding + cell
            }
            Swift.print("| " + cells.joined(separator: " | ") + " |")
            if number == 0 {
                let rules = widths.enumerated().map { column, width in
                    column == 0 ? String(repeating: "-", count: width) : String(repeating: "-", count: width - 1) + ":"
                }
                Swift.print("| " + rules.joined(separator: " | ") + " |")
            }
        }
    }
}

extension Outcome {
    /// The milliseconds, or the reason why there are none.
    var milliseconds: String {
        switch self {
        case .measured(let values): values["seconds"].map { String(format: "%.1f", $0 * 1_000) } ?? "failed"
        case .died(let signal): "dies: signal \(signal)"
        case .tookTooLong: "> \(ProcessRunner.patience) s"
        }
    }
}

/// A ratio as the table shows it.
func times(_ ratio: Double?) -> String {
    guard let ratio else { return "–" }
    return String(format: ratio < 10 ? "%.2f×" : "%.0f×", ratio)
}

/// A count with thousands separators.
func grouped(_ count: Int) -> String {
    let digits = Array(String(count))
    var text = ""
    for (index, digit) in digits.enumerated() {
        if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
        text.append(digit)
    }
    return text
}
