import Foundation
import GRDB
import ThreadSupport

/// An application that this device is creating again, remembered before any of its files is on the remote.
struct BegunReplacement: Hashable, Sendable, Codable {
    /// The epoch of the new application.
    var epoch: String
    /// This device's identifier in the new application.
    var client: String
    /// The epoch whose keys prove the successor; `nil` if this device has none.
    var formerEpoch: String?
}

extension StateDirectory {
    /// The replacement of an application that this device has begun and not finished, if there is one.
    func begunReplacement(for key: ApplicationKey) throws -> BegunReplacement? {
        try read { try StateSchema.fetch(BegunReplacement?.self, $0, "replacement", key) ?? nil }
    }

    /// Remembers a replacement that is about to begin, or, with `nil`, that none is pending.
    func noteReplacement(_ replacement: BegunReplacement?, for key: ApplicationKey) throws {
        guard try begunReplacement(for: key) != replacement else { return }
        try write("replacement") { try StateSchema.save(replacement, $0, "replacement", key) }
    }

    /// Remembers this device's registration with the new application, and forgets the former application's documents.
    func commitReplacement(_ replacement: BegunReplacement, _ pin: ApplicationPin, for key: ApplicationKey) throws {
        try removeFiles(of: key)
        try write("replaced application") { db in
            try StateSchema.delete("fact", where: "document != ''", db, key)
            for table in ["store", "upload"] { try StateSchema.delete(table, db, key) }
            try StateSchema.save(client: replacement.client, db, key)
            try StateSchema.save(pin, db, "pin", key)
        }
        noteClient(replacement.client, of: key)
    }
}

/// The observers to call when any operation detects that this device isn't registered any more.
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
