import StoreChanges

extension StateContent {
    /// The state without what nothing can depend on any more when a prefix of the log is stable.
    func trimmed(_ prefix: StablePrefix?) -> StateContent {
        guard let prefix else { return self }
        var trimmed = self
        for row in rows.keys { _ = trimmed.rows[row]?.inserters.trim(prefix) }
        for (row, tomb) in tombs {
            _ = trimmed.tombs[row]?.row.inserters.trim(prefix)
            if prefix.containsAny(of: tomb.deleters) { trimmed.tombs[row] = nil }
        }
        trimmed.aliases = aliases.filter { !prefix.contains($0.value.maker) }
        return trimmed
    }
}
