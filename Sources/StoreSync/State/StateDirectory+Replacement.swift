import Foundation
import GRDB
import ThreadSupport

/// An application that this device is making anew, noted before anything of it is on the remote.
struct BegunReplacement: Hashable, Sendable, Codable {
    /// The epoch of the new application.
    var epoch: String
    /// This device, as the new application knows it.
    var client: String
    /// The epoch whose keys prove the successor; `nil` where this device has none.
    var formerEpoch: String?
}

extension StateDirectory {
    /// The application that this device began to make anew and hasn't finished, if there is one.
    func begunReplacement(for key: ApplicationKey) throws -> BegunReplacement? {
        try read { try StateSchema.fetch(BegunReplacement?.self, $0, "replacement", key) ?? nil }
    }

    /// Notes an application that is about to be made anew, or, with `nil`, that nothing is left to do.
    func noteReplacement(_ replacement: BegunReplacement?, for key: ApplicationKey) throws {
        guard try begunReplacement(for: key) != replacement else { return }
        try write("replacement") { try StateSchema.save(replacement, $0, "replacement", key) }
    }

    /// The application stands: this device is its client, and what it knew of the former one's documents is void.
    func commitReplacement(_ replacement: BegunReplacement, _ pin: ApplicationPin, for key: ApplicationKey) throws {
        try write("replaced application") { db in
            let arguments: StatementArguments = [key.remote, key.application]
            for change in [
                "DELETE FROM fact WHERE remote = ? AND application = ? AND document != ''",
                "DELETE FROM store WHERE remote = ? AND application = ?",
                "DELETE FROM upload WHERE remote = ? AND application = ?",
            ] { try db.execute(sql: change, arguments: arguments) }
            try db.execute(
                sql: "INSERT OR REPLACE INTO client (remote, application, client) VALUES (?, ?, ?)",
                arguments: [key.remote, key.application, replacement.client]
            )
            try StateSchema.save(pin, db, "pin", key)
        }
    }
}

/// Who wants to know that this device isn't registered any more, whichever operation finds it out.
struct DeregistrationObservers: Sendable {
    typealias Observer = @Sendable (StoreSyncError) async -> Void

    private let observers = Locked<[UUID: (key: ApplicationKey, tell: Observer)]>([:])

    /// Calls `observer` from now on, until it's removed.
    func add(_ identifier: UUID, for key: ApplicationKey, _ observer: @escaping Observer) {
        observers.withLock { $0[identifier] = (key, observer) }
    }

    func remove(_ identifier: UUID) {
        observers.withLock { _ = $0.removeValue(forKey: identifier) }
    }

    func tell(_ error: StoreSyncError, of key: ApplicationKey) async {
        let concerned = observers.withLock { $0.values.filter { $0.key == key }.map(\.tell) }
        for tell in concerned { await tell(error) }
    }
}
