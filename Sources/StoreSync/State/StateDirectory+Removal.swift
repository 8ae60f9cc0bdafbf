import GRDB

/// An application that this device is removing from the remote, remembered before anything of it is removed.
struct BegunRemoval: Hashable, Sendable, Codable {
    /// The application's epoch; `nil` for a tree of TICoreDataSync.
    var epoch: String?
}

extension StateDirectory {
    /// The removal of an application that this device has begun and not finished, if there is one.
    func begunRemoval(for key: ApplicationKey) throws -> BegunRemoval? {
        try read { try StateSchema.fetch(BegunRemoval.self, $0, "removal", key) }
    }

    /// Remembers the removal of an application that is about to begin.
    func noteRemoval(_ removal: BegunRemoval, for key: ApplicationKey) throws {
        guard try begunRemoval(for: key) != removal else { return }
        try write("removal") { try StateSchema.save(removal, $0, "removal", key) }
    }

    /// Forgets an application that was removed from the remote, and this device's identifier in it.
    func commitRemoval(of key: ApplicationKey) throws {
        try write("removed application") { db in
            for table in ["fact", "store", "upload", "client"] {
                try db.execute(
                    sql: "DELETE FROM \(table) WHERE remote = ? AND application = ?",
                    arguments: [key.remote, key.application]
                )
            }
        }
    }
}
