/// The conflicts of sets that were folded, until it's known which devices their other sides are.
///
/// The other side of a conflict is the device whose set last changed the row before.
struct FoldedConflicts {
    private let log: ReplicaLog
    /// The sets in the total order.
    private var sets: [(entry: LogEntry, conflicts: [Conflict], targets: [ConflictTargets.Target])] = []
    /// How many conflicts they have, and how large these are, in bytes.
    private var (count, size) = (0, 0)
    /// The limits of a set, whose rows a device keeps in memory too.
    private static let limits = CapturedChanges.Limits()

    init(_ log: ReplicaLog) { self.log = log }

    /// Adds the conflicts of the next set.
    ///
    /// - Parameters:
    ///   - conflicts: The conflicts.
    ///   - entry: The set.
    ///   - delta: What the set changes, and the state doesn't have yet.
    /// - Throws: `DatabaseError`.
    mutating func add(_ conflicts: [Conflict], of entry: LogEntry, _ delta: StateDelta) throws {
        let aliases = Dictionary(delta.aliases.map { ($0.key, $0.pair.after) }) { first, _ in first }
        let targets = try conflicts.map { try target(of: $0, aliases) }
        sets.append((entry, conflicts, targets))
        count += conflicts.count
        size += conflicts.reduce(0) { $0 + $1.size } + targets.reduce(0) { $0 + ($1.state?.image.count ?? 0) }
    }

    /// Whether the conflicts take so much memory that they shouldn't wait for those of more sets.
    var isFull: Bool { count >= Self.limits.changes || size >= Self.limits.size }

    /// Writes the conflicts into the conflict log; their sets must be integrated.
    mutating func write() throws {
        var others = try others()[...]
        for set in sets {
            try log.setConflicts(Array(zip(set.conflicts, others)), of: set.entry.header)
            others = others.dropFirst(set.conflicts.count)
        }
        self = FoldedConflicts(log)
    }

    /// The other sides of the conflicts, in the order of the conflicts.
    ///
    /// Only what can still be undone is searched, the newest set first and once for all sets: what is stable was known to all
    /// devices.
    private func others() throws -> [ChangeAuthor?] {
        guard count > 0 else { return [] }
        var others: [ChangeAuthor?] = Array(repeating: nil, count: count)
        var targets = ConflictTargets()
        // The sets that are still to come, and the number of their conflicts.
        var (rest, start) = (sets[...], count)
        try log.forEachIntegratedBackwards { entry in
            if !targets.isEmpty {
                let author = ChangeAuthor(entry.id, at: entry.header.stamp)
                try log.undo.forEachPart(of: entry.reference) { part in
                    for index in targets.take(changedBy: part) { others[index] = author }
                }
            }
            if let set = rest.last, set.entry.reference == entry.reference {
                rest.removeLast()
                start -= set.conflicts.count
                targets.add(set.targets, from: start)
            }
            return !targets.isEmpty || start > 0
        }
        return others
    }

    private func target(of conflict: Conflict, _ aliases: [AliasKey: Alias?]) throws -> ConflictTargets.Target {
        let schema = log.state.schema
        var row = conflict.row
        // The other side of a row that was merged as soon as it was inserted is the row that stays.
        if conflict.rule == .merged, try log.state.row(row) == nil,
            let alias = aliases[schema.aliasKey(of: row)] ?? nil
        {
            row.row = alias.row
        }
        let columns = Set(conflict.lost.keys).union(conflict.kept.keys)
        return ConflictTargets.Target(
            row: row,
            state: try log.state.row(row),
            columns: conflict.rule == .merged ? [] : columns
        )
    }
}

extension Conflict {
    /// The size of its cells, in bytes.
    fileprivate var size: Int {
        var writer = ByteWriter()
        for cell in [lost, kept].flatMap(\.values) { writer.cell(cell) }
        return writer.bytes.count
    }
}

/// The conflicts whose other sides aren't found yet, by their rows.
///
/// So each row that a set changed is looked up, and not compared with every conflict.
struct ConflictTargets {
    /// What a conflict is about, before the set.
    struct Target {
        var row: RowReference
        var state: StoredRow?
        /// The columns of the conflict; all of them if it has none.
        var columns: Set<String>
    }

    private var targets: [RowReference: [(index: Int, target: Target)]] = [:]

    /// Adds targets, whose positions begin with `start`.
    mutating func add(_ targets: [Target], from start: Int) {
        for (index, target) in targets.enumerated() {
            self.targets[target.row, default: []].append((start + index, target))
        }
    }

    /// Whether the other sides of all targets that were added are found.
    var isEmpty: Bool { targets.isEmpty }

    /// Takes out the targets to whose rows a set gave what they have, and returns their positions.
    ///
    /// - Parameter former: What the set replaced.
    /// - Returns: The positions.
    mutating func take(changedBy former: FormerItems) -> [Int] {
        former.counts.flatMap { row, _ in take(row) { _ in true } }
            + former.rows.flatMap { row, before in take(row) { $0.isChanged(from: before) } }
    }

    private mutating func take(_ row: RowReference, where isChanged: (Target) -> Bool) -> [Int] {
        guard var known = targets[row] else { return [] }
        let end = known.partition { isChanged($0.target) }
        let found = known[end...].map(\.index)
        targets[row] = end == 0 ? nil : Array(known[..<end])
        return found
    }
}

extension ConflictTargets.Target {
    /// Whether a set that replaced this row gave it what it has.
    fileprivate func isChanged(from before: StoredRow?) -> Bool {
        guard let state, let before else { return true }
        return state.changedColumns(from: before).contains { columns.isEmpty || columns.contains($0) }
    }
}
