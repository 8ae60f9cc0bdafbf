// MARK: - Awaiting

extension SchedulerState {
    /// An operation's `main` is about to await another one that hasn't ended.
    mutating func beginAwait(of slot: Slot, for target: Slot) {
        relations[slot, default: Relations()].awaited.append(Candidate(entries[Int(target)].id, target))
    }

    /// An operation awaits another one no more, which may have ended long since.
    mutating func endAwait(of slot: Slot, for target: Candidate) {
        guard let index = relations[slot]?.awaited.firstIndex(of: target) else { return }
        relations[slot]?.awaited.remove(at: index)
    }

    /// The operations that this one awaits and that haven't ended: the slot of one that has may be another one's.
    func awaited(by slot: Slot) -> [Slot] {
        guard let awaited = relations[slot]?.awaited else { return [] }
        return awaited.filter { contains($0.id, at: $0.slot) }.map(\.slot)
    }
}
