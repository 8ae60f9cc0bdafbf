package import GRDB

extension Configuration {
    /// How this package opens a database: every configuration begins with this one.
    ///
    /// - What is synchronized with the medium gets there. On Apple platforms `fsync(2)` leaves it in the drive's cache, and SQLite
    ///   asks for more only if it's told to; other systems ignore these settings.
    /// - An app that holds a lock in a shared container while it's suspended is ended by iOS. With GRDB's notifications of
    ///   suspension, the app makes these databases release their locks.
    package static var ofThisPackage: Configuration {
        var configuration = Configuration()
        configuration.observesSuspensionNotifications = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
        }
        return configuration
    }
}
