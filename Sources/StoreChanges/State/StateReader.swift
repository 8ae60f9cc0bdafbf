/// Reads the state over which a set is folded.
package protocol StateReader {
    /// Returns a row of a table with a key.
    func row(_ row: RowReference) throws -> StoredRow?
    /// Returns a deleted row.
    func tomb(_ row: RowReference) throws -> StoredTomb?
    /// Returns how often a row without a key occurs; `nil` instead of 0.
    func count(_ row: RowReference) throws -> Int?
    /// Whether former values lead to rows of a table: mostly there are none, and then none is looked for.
    func hasAliases(_ table: String) throws -> Bool
    /// Returns where a former value leads.
    func alias(_ key: AliasKey) throws -> Alias?
    /// Returns the former values that lead to a row.
    func aliases(leadingTo row: RowReference) throws -> [AliasKey]
    /// Returns the aliases whose values SQLite takes for equal to these representatives.
    func aliases(like representative: AliasKey) throws -> [AliasKey]
    /// Returns the rows that have a key, those without a key of their own included.
    func rows(with key: LookupKey) throws -> [RowName]
    /// Returns at least one row of each clash in a unique index, and maybe others.
    func clashes(in unique: Int, of table: String) throws -> [RowName]
    /// Returns the deleted rows to which a reference would lead.
    func tombs(with key: LookupKey) throws -> [RowName]
}
