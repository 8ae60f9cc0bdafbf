// MARK: - Awaiting

extension SchedulerState {
    /// Adds a wait of an operation whose `main` is about to await another operation that hasn't ended.
    mutating func beginAwait(of position: Position, for target: Position) {
        relations[position, default: Relations()].awaited.append(QueueEntry(entries[Int(target)].id, target))
    }

    /// Removes a wait of an operation for another one, which may have ended long ago.
    mutating func endAwait(of position: Position, for target: QueueEntry) {
        guard let index = relations[position]?.awaited.firstIndex(of: target) else { return }
        relations[position]?.awaited.remove(at: index)
    }

    /// Returns the operations that this one awaits and that haven't ended.
    ///
    /// An operation that has ended is skipped: another operation may use its index now.
    func awaited(by position: Position) -> [Position] {
        guard let awaited = relations[position]?.awaited else { return [] }
        return awaited.filter { contains($0.id, at: $0.position) }.map(\.position)
    }
}
