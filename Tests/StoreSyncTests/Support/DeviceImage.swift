import Foundation

/// All that some devices had at one moment: a test restores it as often as it needs.
struct DeviceImage: Sendable {
    private let fixture: Fixture
    private let names: [String]
    private var image: URL { fixture.folder.appending(path: "image", directoryHint: .isDirectory) }

    /// Copies what the devices have.
    init(of names: [String], in fixture: Fixture) throws {
        (self.fixture, self.names) = (fixture, names)
        try FileManager.default.createDirectory(at: image, withIntermediateDirectories: false)
        for name in names {
            try FileManager.default.copyItem(at: fixture.folder.appending(path: name), to: image.appending(path: name))
        }
    }

    /// Restores one of the devices.
    func restore(_ name: String) throws {
        let home = fixture.folder.appending(path: name)
        if FileManager.default.fileExists(atPath: home.path) { try FileManager.default.removeItem(at: home) }
        try FileManager.default.copyItem(at: image.appending(path: name), to: home)
    }

    /// Restores the devices, and removes everything else from the fixture's folder.
    func restore() throws {
        let files = FileManager.default
        for name in try files.contentsOfDirectory(atPath: fixture.folder.path) where name != image.lastPathComponent {
            try files.removeItem(at: fixture.folder.appending(path: name))
        }
        for directory in [fixture.share, fixture.temporary] {
            try files.createDirectory(at: directory, withIntermediateDirectories: false)
        }
        for name in names { try restore(name) }
    }
}
