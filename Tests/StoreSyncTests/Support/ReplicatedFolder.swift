import Foundation
import RemoteStorage

@testable import StoreSync

/// Devices with folders of their own, between which a service carries files, but no empty directories.
struct ReplicatedFolder {
    let fixture: Fixture

    init(_ fixture: Fixture) { self.fixture = fixture }

    /// The path of the document's directory, with a slash at its end.
    var document: String { "\(fixture.hierarchy.document(fixture.document).root)/" }

    private func folder(_ name: String) -> URL {
        fixture.folder.appending(path: "folder of \(name)", directoryHint: .isDirectory)
    }

    /// Returns the device of a name, with its own folder.
    func device(_ name: String) throws -> Device {
        try FileManager.default.createDirectory(at: folder(name), withIntermediateDirectories: true)
        return try fixture.device(name, backend: LocalFolderBackend(root: folder(name)))
    }

    /// Every file in a device's folder, by its path.
    func files(_ name: String) throws -> [String: Data] {
        var files: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: folder(name).path) {
            let url = folder(name).appending(path: path)
            guard try url.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true else { continue }
            files[path] = try Data(contentsOf: url)
        }
        return files
    }

    /// Writes a file into a device's folder, or removes it if `bytes` is `nil`.
    func put(_ bytes: Data?, at path: String, of name: String) throws {
        let url = folder(name).appending(path: path)
        guard let bytes else { return try FileManager.default.removeItem(at: url) }
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try bytes.write(to: url)
    }

    /// Carries files from a device to others, whose files of the same names they replace.
    func carry(from name: String, to others: String..., where arrives: (String) -> Bool = { _ in true }) throws {
        for (path, bytes) in try files(name) where arrives(path) {
            for other in others { try put(bytes, at: path, of: other) }
        }
    }

    /// Lets a device's folder have exactly the files of another one's.
    func mirror(from name: String, to other: String) throws {
        try empty(other)
        try carry(from: name, to: other)
    }

    /// Removes all that is in a device's folder.
    func empty(_ name: String) throws {
        try FileManager.default.removeItem(at: folder(name))
        try FileManager.default.createDirectory(at: folder(name), withIntermediateDirectories: true)
    }

    /// Moves the document's directory out of a device's folder.
    func moveDocumentAway(of name: String) throws {
        let directory = folder(name).appending(path: document, directoryHint: .isDirectory)
        try FileManager.default.moveItem(at: directory, to: fixture.folder.appending(path: "moved from \(name)"))
    }
}
