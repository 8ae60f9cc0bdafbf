/// Ends operations whose dependency didn't end well, without recursion: an ending that is caused by another one joins
/// the list that is being worked off, so a chain of any length needs no more stack than its first link.
enum Propagation {
    @TaskLocal private static var list: WorkList?

    private final class WorkList: @unchecked Sendable {
        // Sendable: used only below `run`, which is synchronous, by the thread that made it.
        var pending: [(OperationRecord, any Error)] = []
    }

    /// Ends operations that haven't started with the error that is theirs.
    static func end(_ endings: [(OperationRecord, any Error)]) {
        guard !endings.isEmpty else { return }
        if let list {
            list.pending += endings
            return
        }
        let list = WorkList()
        list.pending = endings
        $list.withValue(list) {
            var next = 0
            while next < list.pending.count {
                let (record, error) = list.pending[next]
                next += 1
                record.scheduler?.withdraw(record, error)
            }
        }
    }
}
