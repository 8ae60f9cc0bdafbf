/// The deleted rows that went with a row of this set: by a consequence of its delete, or by a repair.
struct Companions {
    private var companions: [RowReference: Set<RowReference>] = [:]
    /// The rows with which a row went.
    private var leaders: [RowReference: Set<RowReference>] = [:]

    /// The rows that went with a row, in ascending order of their names.
    func rows(with leader: RowReference) -> [RowReference] { (companions[leader] ?? []).sorted() }

    mutating func insert(_ row: RowReference, with leader: RowReference) {
        companions[leader, default: []].insert(row)
        leaders[row, default: []].insert(leader)
    }

    /// Lets a deleted row have another name.
    mutating func rename(_ row: RowReference, to name: RowReference) {
        for leader in leaders.removeValue(forKey: row) ?? [] {
            companions[leader]?.remove(row)
            insert(name, with: leader)
        }
        for companion in companions.removeValue(forKey: row) ?? [] {
            leaders[companion]?.remove(row)
            insert(companion, with: name)
        }
    }
}
