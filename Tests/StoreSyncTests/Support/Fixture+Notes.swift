import Foundation
import Operations
import StoreChanges
import Testing

@testable import StoreSync

extension Fixture {
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
        let client = try #require(try device.synchronizationMemory()?.client)
        return try files().keys.filter { $0.contains("SyncChanges/\(client)/") }.sorted()
    }

    /// Expects that a device without its replica refuses an edited store whose baseline can't be read, and that no edit is
    /// lost with a side.
    func expectEditIsKept(of device: Device, besides other: Device, taking side: TakenSide) async throws {
        func titles(_ device: Device) throws -> [String] { try device.query("SELECT title FROM note ORDER BY title") }
        try device.execute("UPDATE note SET title = 'edited' WHERE title = '\(device.name)'")
        let store = try Data(contentsOf: device.store)
        try FileManager.default.removeItem(at: #require(device.state.replicas().first))
        let error = await #expect(throws: StoreSyncError.self) { try await device.synchronize().value }
        #expect(error?.code == .noUploadedStore && error?.message.contains("--take both") == true, "\(error as Any)")
        #expect(try Data(contentsOf: device.store) == store)
        _ = try await device.synchronize(SynchronizationRequest(url: device.store, takenSide: side)).value
        _ = try await other.synchronize().value
        #expect(try titles(device).contains("edited") && titles(device).contains(other.name))
        #expect(try titles(other) == titles(device))
    }
}
