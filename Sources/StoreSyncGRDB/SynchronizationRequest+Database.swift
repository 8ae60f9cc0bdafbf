import Foundation
public import GRDB
public import StoreSync

extension SynchronizationRequest {
    /// Creates a request to synchronize an app's database through the app's connection.
    ///
    /// What other devices have edited is written in one transaction of the connection, so that the app's observations are
    /// notified as of the app's own writes. What this device has edited is read with another connection.
    ///
    /// - Parameters:
    ///   - database: A `DatabaseQueue` or a `DatabasePool` with a database in a file.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    public init(_ database: any DatabaseWriter, allowsDeletions: Bool = false) {
        self.init(url: URL(named: database.path), allowsDeletions: allowsDeletions)
        app = database
    }
}
