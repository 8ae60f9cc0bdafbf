import DatabaseSupport
import Foundation

/// Telling without reading it that a database is unchanged.
extension LocalStore {
    /// For how long after a write the status of a file isn't trusted, in seconds: some file systems count time in steps of two seconds.
    private static let distrust: TimeInterval = 2

    /// The status of a database's files, while a transaction reads the state that is in them.
    ///
    /// A commit writes into the log if that transaction keeps it from the file, and otherwise waits for it. So if the log is empty, the
    /// file holds this state.
    ///
    /// - Parameter byteCount: The size of the state, in bytes.
    /// - Returns: The status; `nil` if a later write might not show in it.
    func status(ofDatabaseWith byteCount: Int64) -> StoreStatus? {
        let (now, status) = (now(), StoreStatus(ofStoreAt: path))
        let isTrusted = status.settled.addingTimeInterval(Self.distrust) < now
        return isTrusted && !status.hasLog && status.byteCount == byteCount ? status : nil
    }

    /// Whether the database is as it was when its files had a status.
    func isUnchanged(since status: StoreStatus) -> Bool { StoreStatus(ofStoreAt: path) == status }
}
