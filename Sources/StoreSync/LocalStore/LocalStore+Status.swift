import DatabaseSupport
import Foundation

/// Telling without reading it that a database is unchanged.
extension LocalStore {
    /// For how long after a write the status of a file isn't trusted, in seconds: some file systems count time in steps of two seconds.
    private static let distrust: TimeInterval = 2

    /// The status of a database's files, if every later write shows in it.
    ///
    /// If it's the same after the database was read, nothing was written meanwhile, so it's the status of what was read.
    ///
    /// - Returns: The status; `nil` if the store was just written, if its log holds anything, perhaps a commit that shows later without
    ///   a change of its status, or if it isn't a database: a program that maps a file into memory changes it like that, too.
    func trustedStatus() -> StoreStatus? {
        let (now, status) = (now(), StoreStatus(ofStoreAt: url.path))
        guard isDatabase, !status.hasLog,
            status.settled.addingTimeInterval(Self.distrust) < now
        else { return nil }
        return status
    }

    /// Whether the database is as it was when its files had a status.
    func isUnchanged(since status: StoreStatus) -> Bool { StoreStatus(ofStoreAt: url.path) == status }
}
