// MARK: - Awaiting

extension SchedulerState {
    /// Adds a wait of an operation whose `main` is about to await another operation that hasn't ended.
    mutating func beginAwait(of slot: Slot, for target: Slot) {
        relations[slot, default: Relations()].awaited.append(Candidate(entries[Int(target)].id, target))
    }

    /// Removes a wait of an operation for another one, which may have ended long ago.
    mutating func endAwait(of slot: Slot, for target: Candidate) {
        guard let index = relations[slot]?.awaited.firstIndex(of: target) else { return }
        relations[slot]?.awaited.remove(at: index)
    }

    /// Returns the operations that this one awaits and that haven't ended.
    ///
    /// An operation that has ended is skipped: another operation may use its index now.
    func awaited(by slot: Slot) -> [Slot] {
        guard let awaited = relations[slot]?.awaited else { return [] }
        return awaited.filter { contains($0.id, at: $0.slot) }.map(\.slot)
    }
}
