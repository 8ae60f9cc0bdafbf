import StoreChanges

extension Oracle {
    /// The plain fold, with SQLite for the expressions.
    static func evaluating(_ schema: StoreSchema) throws -> Oracle {
        let scratch = ScratchEvaluator(schema)
        return Oracle(
            schema: schema,
            violatesCheck: { row, cells in
                guard let table = schema.table(row.table) else { return false }
                return (try? scratch.violatesCheck(table, cells)) ?? false
            },
            indexKey: { index, name, cells in
                guard let table = schema.table(name) else { return nil }
                guard index.condition != nil || index.columns == nil else {
                    return PlainEvaluator().values(of: index, in: table, cells)
                }
                return (try? scratch.values(of: index, in: table, cells)) ?? nil
            }
        )
    }
}
