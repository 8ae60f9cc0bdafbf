import Operations

extension Fixture {
    /// Devices that have synchronized a table of notes, which the first one created with a note.
    func devicesWithNotes(_ names: String...) async throws -> [Device] {
        let devices = try names.map { try device($0) }
        try devices[0].execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try devices[0].execute("INSERT INTO note (title) VALUES ('first')")
        for device in devices { _ = try await device.synchronize().value }
        return devices
    }
}
