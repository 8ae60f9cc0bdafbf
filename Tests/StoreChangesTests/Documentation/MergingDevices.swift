import Foundation
import GRDB
import StoreChanges
import TestSupport

/// The laptop and the desktop of an example: two stores that begin equal, and exchange what they capture.
final class MergingDevices {
    private let folder = TemporaryFolder()
    private var time: TimeInterval = 0
    private var captured: [String: [SyncChangeSet]] = [:]
    static let names = ["laptop", "desktop"]

    init(_ schema: String, _ rows: [String]) throws {
        for device in Self.names {
            try execute([schema] + rows, on: device)
            try open(device).begin()
        }
    }

    private func storeURL(_ device: String) -> URL { folder.appending(path: "\(device).sqlite") }

    /// Opens a device's store, as a synchronization does; every time is later than the times before.
    func open(_ device: String) throws -> SynchronizedStore {
        time += 1
        let now = Date(timeIntervalSince1970: time)
        return try SynchronizedStore(
            storeAt: storeURL(device),
            replicaAt: folder.appending(path: "\(device).replica"),
            SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: device)),
            options: SynchronizedStore.Options(now: { now })
        )
    }

    /// Executes statements of the app.
    func execute(_ statements: [String], on device: String) throws {
        let app = try DatabaseQueue(path: storeURL(device).path)
        defer { try? app.close() }
        try app.write { db in for statement in statements { try db.execute(sql: statement) } }
    }

    /// Captures what a device has edited.
    func capture(_ device: String) throws {
        let store = try open(device)
        captured[device, default: []] += try store.sets(store.recordChanges())
    }

    /// Restores an entry of a device's conflict log.
    func restore(_ number: Int64, on device: String) throws {
        let store = try open(device)
        captured[device, default: []] += try store.sets(store.restore(number))
    }

    /// Gives each device what the other one has captured.
    ///
    /// - Returns: The devices whose app is too old for some of it.
    func exchange() throws -> [String] {
        let sets = captured
        captured = [:]
        return try Self.names.filter { device in
            let others = sets.filter { $0.key != device }.flatMap(\.value)
            return try open(device).synchronize(with: others).needsNewerSchema
        }
    }

    /// All rows of the tables that synchronize, as SQL would write them.
    func rows(_ device: String) throws -> [String] {
        let queue = try DatabaseQueue(path: storeURL(device).path)
        defer { try? queue.close() }
        return try queue.read { db in
            try StoreSchema(db).tables.flatMap { table in
                let cells = table.columns.map { "quote(\"\($0.name)\")" }.joined(separator: " || ', ' || ")
                return try String.fetchAll(
                    db,
                    sql: "SELECT '\(table.name) (' || \(cells) || ')' FROM \"\(table.name)\""
                )
            }
        }.sorted()
    }

    /// What violates a constraint of a store.
    func violations(_ device: String) throws -> [String] {
        let queue = try DatabaseQueue(path: storeURL(device).path)
        defer { try? queue.close() }
        return try queue.read { db in
            try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { "\($0)" }
                + String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
        }
    }

    /// A device's conflict log, as `storesync conflicts` prints it without the numbers of the entries.
    func conflicts(_ device: String) throws -> [String] {
        let store = try open(device)
        return try store.conflicts().flatMap { entry in
            let (conflict, row) = (entry.conflict, entry.conflict.row)
            let key = try store.number(of: row).map { "\($0)" } ?? "\(row.row)"
            return ["\(row.table) \(key): \(conflict.summary)"]
                + conflict.overwritten.sorted { $0.key < $1.key }.map { column, cell in
                    "\(column): \(cell)" + (conflict.kept[column].map { ", now \($0)" } ?? "")
                }
        }
    }
}
