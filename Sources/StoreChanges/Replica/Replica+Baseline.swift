package import GRDB

extension Replica {
    /// Records the rows of the store with which all devices begin.
    ///
    /// A row with an integer key is named by the origin and its number in that store, so that all devices give it the same
    /// name without exchanging any.
    ///
    /// - Parameters:
    ///   - baseline: The store with which all devices begin, in a transaction.
    ///   - origin: The document's origin.
    /// - Throws: `DatabaseError`.
    package func adopt(_ baseline: Database, origin: ClientID) throws {
        let store = SQLConnection(baseline)
        let numbers = ReplicaNumbers(state)
        let tables = try state.schema.tables.keys.sorted { $0.precedes($1) }.map {
            try StoreTable($0, in: store, state)
        }
        // Tables whose keys refer to others come last: their rows have the names of the others'.
        let (own, borrowed) = (
            tables.filter { state.schema.numberedTable($0.name) == $0.name },
            tables.filter { state.schema.numberedTable($0.name) != $0.name }
        )
        for table in own + borrowed {
            try table.forEachNumber { number in
                guard try numbers.name(of: number, in: table.name) == nil else { return }
                let name = RowName.numbered(client: origin, number: number)
                try numbers.setNumber(number, of: RowReference(table.name, name))
            }
        }
        for table in tables {
            var counts: [RowReference: Int] = [:]
            try table.forEachRow { row in
                if state.schema.isCounted(row.reference) {
                    counts[row.reference, default: 0] += 1
                } else {
                    try state.write(row.reference, RowState(cells: row.cells, inserters: []))
                }
            }
            for (row, count) in counts { try state.write(row, count: count) }
        }
    }
}
