import CSQLite
package import GRDB
import GRDBSQLite

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

    /// How a database is opened whose pages are copied: SQLite needn't know all that its schema says.
    ///
    /// The app may have a newer SQLite than this process, and use its syntax in the schema.
    package static var ofPages: Configuration {
        var configuration = Configuration.ofThisPackage
        configuration.prepareDatabase { db in
            // This first read refuses a file that's cut off, which SQLite accepts with the setting.
            _ = try Int.fetchOne(db, sql: "PRAGMA schema_version")
            // SQLite ignores the pragma of that name in its defensive mode, which is the default on Apple platforms.
            let code = changeSetting(db.sqliteConnection, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, nil)
            guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        }
        return configuration
    }
}
