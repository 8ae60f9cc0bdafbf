import DatabaseSupport
import Foundation
import GRDB
import SystemPackage

extension StoreSyncError {
    /// Translates an error of SQLite for a local store.
    init(database error: any Error, at path: String) {
        let fault = (error as? DatabaseError)?.fault(ofDatabaseAt: path)
        switch (error as? DatabaseError)?.resultCode {
        case _ where fault == .unknownSchema:
            self.init(.unsupportedFormat, DatabaseFault.unknownSchema(of: path, error), cause: error)
        case _ where fault == .reading:
            self.init(.cannotWrite, DatabaseFault.unreadable("\(path) on this device"), cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.busy, "\(path) is being used by another program. Close it there, or try again.", cause: error)
        case .SQLITE_ABORT, .SQLITE_INTERRUPT:
            self.init(.busy, .suspended(path), cause: error)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            self.init(
                .corrupt,
                """
                \(path) on this device is a damaged SQLite database. Recover it; or move it away, and synchronize or pull again.
                """,
                cause: error
            )
        case .SQLITE_FULL, .SQLITE_IOERR:
            self.init(
                .cannotWrite,
                "The disk on this device is full or has an error, next to \(path) or in the temporary directory. Make room or check the disk.",
                cause: error
            )
        case .SQLITE_READONLY:
            self.init(
                .cannotWrite,
                "\(path), or its directory, can't be written on this device. Check the permissions of both.",
                cause: error
            )
        default:
            self.init(
                .storeNotFound,
                "\(path) can't be opened on this device. Check the permissions of the file and its directory.",
                cause: error
            )
        }
    }

    /// The error for a store that was written meanwhile: the next attempt tells edits from the work of another pull.
    static func changedMeanwhile(_ store: LocalStore) -> StoreSyncError {
        StoreSyncError(
            .localChanges,
            """
            \(store.path) was changed or replaced by another program while its replacement was downloaded. Try again: that \
            tells whether edits would be lost.
            """
        )
    }

    /// Translates an error of this device's file system from writing `url`.
    init(writing url: URL, _ error: any Error) {
        var reason = (error as NSError).localizedFailureReason ?? (error as NSError).localizedDescription
        // SQLite's messages end without a period; the system's may be in a language that has another one.
        if reason.last?.isPunctuation != true { reason += "." }
        self.init(
            .cannotWrite,
            "\(url.path) can't be written on this device: \(reason) Make room or check the permissions.",
            cause: error
        )
    }

    /// Translates an error number of this device's file system from writing `path`.
    init(writing path: String, errno code: Int32) {
        let advice =
            code == ENOENT
            ? "It or its folder was removed or renamed meanwhile. Try again." : "Make room or check the permissions."
        self.init(
            .cannotWrite,
            "\(path) can't be written on this device: \(String(cString: strerror(code))). \(advice)",
            cause: Errno(rawValue: code)
        )
    }
}

extension String {
    /// Says that a database released its locks, because the app has announced that it's about to be suspended.
    static func suspended(_ path: String) -> String {
        "\(path) was closed because the app is being suspended. Nothing is lost: try again when the app resumes."
    }
}
