import Foundation
import Operations
import StoreChanges
import Testing

@testable import StoreSync

extension Fixture {
    /// Devices “a” and “b”, which have synchronized a store that “a” created by these statements.
    func pair(sharing sql: String) async throws -> (Device, Device) {
        let (a, b) = (try device("a"), try device("b"))
        try await a.synchronize(after: sql)
        _ = try await b.synchronize().value
        return (a, b)
    }

    /// Devices that have synchronized a table of notes, which the first one created with a note.
    func devicesWithNotes(_ names: String...) async throws -> [Device] {
        let devices = try names.map { try device($0) }
        try devices[0].execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try devices[0].execute("INSERT INTO note (title) VALUES ('first')")
        for device in devices { _ = try await device.synchronize().value }
        return devices
    }

    /// Inserts notes that are too large for a head, each in a synchronization of its own.
    func writeLargeNotes(_ count: Int, by device: Device) async throws {
        for _ in 0..<count {
            try device.execute("INSERT INTO note (title, bytes) VALUES ('\(device.name)', randomblob(70000))")
            _ = try await device.synchronize().value
        }
    }

    /// The paths of a device's files with older change sets.
    func segments(of device: Device) throws -> [String] {
        let client = try device.client()
        return try files().keys.filter { $0.contains("SyncChanges/\(client)/") }.sorted()
    }

    /// The paths of a device's heads, and of its files with older change sets.
    func syncFiles(of device: Device) throws -> [String] {
        let client = try device.client()
        let heads = try files().keys.filter { $0.contains("RecentSyncs/\(client)-") }
        return try (heads + segments(of: device)).sorted()
    }

    /// Expects that a device without its replica refuses an edited store whose baseline can't be read, and that no edit is
    /// lost with a side.
    func expectEditIsKept(of device: Device, besides other: Device, taking side: TakenSide) async throws {
        try device.execute("UPDATE note SET title = 'edited' WHERE title = '\(device.name)'")
        let store = try Data(contentsOf: device.store)
        try FileManager.default.removeItem(at: #require(device.state.replicas().first))
        let error = await #expect(throws: StoreSyncError.self) { try await device.synchronize().value }
        #expect(error?.code == .noUploadedStore && error?.message.contains("--take both") == true, "\(error as Any)")
        #expect(try Data(contentsOf: device.store) == store)
        _ = try await device.synchronize { $0.takenSide = side }.value
        _ = try await other.synchronize().value
        #expect(try device.titles().contains("edited") && device.titles().contains(other.name))
        #expect(try other.titles() == device.titles())
    }
}

extension [Device] {
    /// The devices, which must be two.
    var pair: (Device, Device) {
        get throws {
            try #require(count == 2)
            return (self[0], self[1])
        }
    }

    /// The devices, which must be three.
    var triple: (Device, Device, Device) {
        get throws {
            try #require(count == 3)
            return (self[0], self[1], self[2])
        }
    }
}
