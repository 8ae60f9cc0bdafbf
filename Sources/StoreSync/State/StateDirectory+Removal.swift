import GRDB

/// An application that this device removes from the remote, remembered before anything of it is removed.
///
/// It stays remembered, since devices that are working meanwhile may leave something, which only this device can
/// recognize later.
struct BegunRemoval: Hashable, Sendable, Codable {
    /// The application's epoch; `nil` for a tree of TICoreDataSync.
    var epoch: String?
    /// Whether the application's directory may be removed already; `nil` if not.
    ///
    /// Before that, a missing directory isn't this device's doing: the share may be unmounted.
    var isLastStep: Bool?
}

extension StateDirectory {
    /// The removal of an application that this device has begun, if it hasn't registered with another one since.
    func begunRemoval(for key: ApplicationKey) throws -> BegunRemoval? {
        let removal = try read { try StateSchema.fetch(BegunRemoval.self, $0, "removal", key) }
        if let pin = try pin(for: key), pin.epoch != removal?.epoch { return nil }
        return removal
    }

    /// Remembers the removal of an application that is about to begin.
    func noteRemoval(_ removal: BegunRemoval, for key: ApplicationKey) throws {
        guard try begunRemoval(for: key) != removal else { return }
        try write("removal") { try StateSchema.save(removal, $0, "removal", key) }
    }

    /// Forgets an application that was removed from the remote, and this device's identifier in it.
    func commitRemoval(of key: ApplicationKey) throws {
        try removeFiles(of: key)
        try write("removed application") { db in
            try StateSchema.delete("fact", where: "name != 'removal'", db, key)
            for table in ["store", "upload", "client"] { try StateSchema.delete(table, db, key) }
        }
        noteClient(nil, of: key)
    }
}
