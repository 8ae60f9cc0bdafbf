import GRDB
import ThreadSupport

/// Records what happens to the notes in each transaction of a connection.
final class RecordedEvents: TransactionObserver, Sendable {
    struct Refusal: Error, Equatable {}

    private struct State {
        var current: [String] = []
        var transactions: [[String]] = []
        var isRefusing = false
        var settings: [Int] = []
    }

    private let state = Locked(State())

    /// The events of each transaction that changed notes.
    var transactions: [[String]] { state.withLock(\.transactions) }

    /// `PRAGMA foreign_keys` and `PRAGMA synchronous` while the last transaction was committed.
    var settings: [Int] { state.withLock(\.settings) }

    func refuse(_ isRefusing: Bool) { state.withLock { $0.isRefusing = isRefusing } }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { eventKind.tableName == "note" }

    func databaseDidChange(with event: DatabaseEvent) {
        let kind =
            switch event.kind {
            case .insert: "insert"
            case .update: "update"
            case .delete: "delete"
            }
        state.withLock { $0.current.append("\(kind) \(event.rowID)") }
    }

    func databaseWillCommit() throws {
        if state.withLock(\.isRefusing) { throw Refusal() }
    }

    func databaseDidCommit(_ db: Database) {
        let settings = ["foreign_keys", "synchronous"].map { (try? Int.fetchOne(db, sql: "PRAGMA \($0)")) ?? -1 }
        state.withLock { state in
            if !state.current.isEmpty { state.transactions.append(state.current) }
            state.current = []
            state.settings = settings
        }
    }

    func databaseDidRollback(_ db: Database) { state.withLock { $0.current = [] } }
}
