/// Rows that are in each other's way, as when they exchange their unique values.
extension StoreWriter {
    /// Writes rows, with the app's triggers, that others were in the way of.
    ///
    /// - Parameter targets: The rows, in the order in which each of them was tried.
    /// - Returns: The rows that have to wait for a pass without triggers, and the tables of which rows were written without.
    /// - Throws: `DatabaseError`, and `CancellationError`.
    func writeBlocked(_ targets: [Target]) throws -> (waiting: [Target], tablesWithoutTriggers: Set<String>) {
        let waiting = try retry(targets)
        let staying = waiting.filter(\.stays)
        guard !staying.isEmpty, try attempt({ try exchange(staying) }) else { return (waiting, []) }
        return (try retry(waiting.filter { !$0.stays }), Set(staying.map(\.row.table)))
    }

    /// Tries rows one by one, backwards and forwards in turn, so that a list whose rows all move by one needs one pass.
    ///
    /// It ends when a pass writes less than a tenth of them: otherwise many rows in any order would need as many passes.
    ///
    /// - Returns: The rows that aren't written.
    private func retry(_ targets: [Target]) throws -> [Target] {
        var waiting = targets
        var count = 0
        repeat {
            count = waiting.count
            waiting = try waiting.reversed().filter { target in
                try Task.checkCancellation()
                return try !triesWithTriggers(target)
            }
        } while !waiting.isEmpty && (count - waiting.count) * 10 >= count
        return waiting
    }

    /// Writes rows of which each has values that another one gets.
    ///
    /// They have to go before they come again. No trigger may take that for deletes and inserts, so none runs. Where other
    /// values change too, triggers run for these before.
    private func exchange(_ targets: [Target]) throws {
        for target in targets where try triggers.exist(on: target.row.table) {
            _ = try attempt { try writeOtherColumns(of: target) }
        }
        try withoutTriggers { try writeTogether(targets) }
    }

    /// Writes the changed columns of a row that no unique index has.
    private func writeOtherColumns(of target: Target) throws {
        guard let former = target.former, let present = target.present else { return }
        let unique = present.table.uniques.reduce(into: Set<String>()) { $0.formUnion($1.columns) }
        let columns = present.changedColumns(from: former).filter { !unique.contains($0) }
        try table(target.row.table).update(target.row, present, writing: columns, number: target.number)
    }
}

extension ReplicaPending.Difference {
    /// Whether the store has the row before and after.
    fileprivate var stays: Bool { former != nil && present != nil }
}
