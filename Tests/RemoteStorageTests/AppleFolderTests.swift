import Foundation
import Testing

@testable import RemoteStorage

@Suite("A folder of an Apple device", .timeLimit(.minutes(60)))
struct AppleFolderTests {
    @Test("A folder keeps the identity that it's given, wherever it is")
    func identity() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder, identity: "notes folder")
            #expect(backend.identity == "notes folder")
            #expect(
                LocalFolderBackend(root: folder).identity == LocalFolderBackend(root: folder, identity: nil).identity
            )
            #expect(LocalFolderBackend(root: folder).identity.hasPrefix("file:///"))
        }
    }

    @Test("A file in iCloud that isn't on this device is an error: it's neither missing nor replaced")
    func placeholder() async throws {
        try await withTemporaryFolder { folder in
            let root = folder.appending(path: "Library/Mobile Documents/notes", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
            try Data([1]).write(to: root.appending(path: ".one.icloud"))
            try Data([2]).write(to: root.appending(path: "two"))
            let backend = LocalFolderBackend(root: root)
            let one = try RemotePath("one")
            for request in [
                { _ = try await backend.list(.root) }, { _ = try await backend.status(of: one) },
                { _ = try await backend.read(one, range: nil) },
                { _ = try await backend.write([3], to: one, when: .ifAbsent) },
            ] as [@Sendable () async throws -> Void] {
                let error = await #expect(throws: RemoteError.self) { try await request() }
                #expect(error?.code == .unavailable)
                #expect(error?.path == one)
                #expect(error?.message.contains("Keep Downloaded") == true)
            }
            #expect(try await backend.status(of: RemotePath("two"))?.size == 1)
            #expect(try await backend.status(of: RemotePath("three")) == nil)
        }
    }

    @Test("A folder outside iCloud may have files with names as iCloud's placeholders have")
    func ordinary() async throws {
        try await withTemporaryFolder { folder in
            try Data([1]).write(to: folder.appending(path: ".one.icloud"))
            let backend = LocalFolderBackend(root: folder)
            #expect(try await backend.list(.root)?.map(\.name) == [".one.icloud"])
            #expect(try await backend.status(of: RemotePath("one")) == nil)
        }
    }
}
