import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

/// Access to the files in the shared folder, for tests that act as the storage.
extension Fixture {
    var hierarchy: ApplicationHierarchy { ApplicationHierarchy(application) }

    func url(_ path: RemotePath) -> URL { share.appending(path: "\(path)") }

    /// Every file on the remote, by its path.
    func files() throws -> [String: Data] {
        let root = share.path
        let names = try FileManager.default.subpathsOfDirectory(atPath: root)
        var files: [String: Data] = [:]
        for name in names {
            var isDirectory: ObjCBool = false
            _ = FileManager.default.fileExists(atPath: "\(root)/\(name)", isDirectory: &isDirectory)
            if !isDirectory.boolValue { files[name] = try Data(contentsOf: URL(fileURLWithPath: "\(root)/\(name)")) }
        }
        return files
    }

    /// Everything on the remote, by its path: files with their bytes, directories with `nil`.
    func contents() throws -> [String: Data?] {
        let paths = try FileManager.default.subpathsOfDirectory(atPath: share.path)
        return Dictionary(
            uniqueKeysWithValues: paths.map { path in (path, try? Data(contentsOf: share.appending(path: path))) }
        )
    }

    /// Writes a file to the remote and creates its directories, or removes the file if `bytes` is `nil`.
    func put(_ bytes: Data?, at name: String) throws {
        let url = share.appending(path: name)
        guard let bytes else {
            try FileManager.default.removeItem(at: url)
            return
        }
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try bytes.write(to: url)
    }

    /// Restores the remote to exactly these files.
    func restore(_ files: [String: Data]) throws {
        for name in try self.files().keys where files[name] == nil { try put(nil, at: name) }
        for (name, bytes) in files { try put(bytes, at: name) }
    }

    /// Deletes the document in the name of a registered device, and leaves the note on its deletion.
    func deleteDocument(by device: Device) async throws {
        let seal = try await device.register().value.seal
        let document = hierarchy.document(document)
        let info = try #require(try await remote.bytes(at: document.documentInfo))
        let opened = try seal.open(info, as: .documentInfo(self.document), at: document.documentInfo)
        let note = hierarchy.deletedDocument(self.document)
        try await remote.write(seal.seal(opened, as: .deletedDocument(self.document)), to: note, when: .always)
        try await remote.remove(document.root)
    }
}
