extension CheckConstraint {
    /// How many numbers a `BETWEEN` lists at most; with more it only limits the numbers that each device gives by itself.
    private static let maximumCount = 100

    /// Whether it lists the numbers that a key may have, as `id = 1`, `id IN (1, 2)` or `id BETWEEN 1 AND 3` does: they mean
    /// something then.
    ///
    /// `BETWEEN` lists numbers if its bounds are numbers, and allow at most 100.
    func fixes(_ column: String) -> Bool {
        let name = column.sqlName.quotedName
        let relations = ["=", "\"is\"", "\"in\"", Self.between]
        let others = Set(relations + ["(", ")", ",", "-", "\"or\"", "\"and\""])
        return expression.contains(name) && !Set(relations).isDisjoint(with: expression)
            && expression.allSatisfy { $0 == name || others.contains($0) || Int64($0) != nil }
            && expression.indices.allSatisfy { expression[$0] != Self.between || listsFew(after: $0) }
    }

    /// Whether it allows all positive numbers in a key, as `id > 0` does: devices give no others.
    func allowsPositiveNumbers(in column: String) -> Bool {
        let name = column.sqlName.quotedName
        // Two symbols are a token each.
        return [
            [name, ">", "0"], [name, ">", "=", "0"], [name, ">", "=", "1"],
            ["0", "<", name], ["0", "<", "=", name], ["1", "<", "=", name],
        ].contains(expression)
    }

    private static let between = "\"between\""

    /// Whether a `BETWEEN` is followed by two numbers that aren't far apart.
    private func listsFew(after index: Int) -> Bool {
        var rest = expression[(index + 1)...]
        guard let first = rest.popNumber(), rest.popFirst() == "\"and\"", let last = rest.popNumber() else {
            return false
        }
        let (distance, overflows) = last.subtractingReportingOverflow(first)
        return !overflows && distance < Self.maximumCount
    }
}

extension ArraySlice<String> {
    /// Removes a number, with its sign, from the beginning of a constraint's tokens.
    fileprivate mutating func popNumber() -> Int64? {
        let sign = first == "-" ? popFirst() ?? "" : ""
        return popFirst().flatMap { Int64(sign + $0) }
    }
}
