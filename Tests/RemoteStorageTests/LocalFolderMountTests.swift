import Foundation
import RemoteStorage
import Testing

@Suite("A folder that can't be written", .timeLimit(.minutes(60)))
struct LocalFolderMountTests {
    @Test(
        "A write to a full disk leaves no partial file in the folder, and smaller files are accepted",
        .enabled(if: canMount)
    )
    func fullDisk() async throws {
        try await withMountedFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let path = try RemotePath("file")
            try await backend.write([1], to: path, when: .always)
            let large = [UInt8](repeating: 1, count: 2 << 20)
            await expect(.noSpace) { try await backend.write(large, to: path, when: .always) }
            await expect(.noSpace) { try await backend.write(large, to: RemotePath("other"), when: .ifAbsent) }
            #expect(try names(in: folder) == ["file"])
            #expect(try await backend.bytes(at: path) == [1])
            try await backend.write([2], to: path, when: .always)
        }
    }

    @Test("A read-only folder refuses every change, and stays readable", .enabled(if: canMount))
    func readOnly() async throws {
        try await withMountedFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let (path, other) = (try RemotePath("file"), try RemotePath("other/file"))
            try await backend.write([1], to: path, when: .always)
            try run("mount", "-o", "remount,ro", folder.path)
            await expect(.notAllowed) { try await backend.write([2], to: path, when: .always) }
            await expect(.notAllowed) { try await backend.createDirectory(at: other) }
            await expect(.notAllowed) { try await backend.copy(path, to: other, when: .ifAbsent) }
            await expect(.notAllowed) { try await backend.move(path, to: RemotePath("moved")) }
            await expect(.notAllowed) { try await backend.remove(path) }
            #expect(try await backend.list(.root)?.map(\.name) == ["file"])
            #expect(try await backend.bytes(at: path) == [1])
        }
    }

    @Test(
        "A folder whose permissions forbid writing stays readable",
        .enabled(if: geteuid() != 0, "root may write everywhere")
    )
    func permissions() async throws {
        try await withTemporaryFolder { folder in
            try FileManager.default.setAttributes([.posixPermissions: 0o500], ofItemAtPath: folder.path)
            let backend = LocalFolderBackend(root: folder)
            await expect(.notAllowed) { try await backend.write([1], to: RemotePath("file"), when: .always) }
            #expect(try await backend.list(.root) == [])
        }
    }

    @Test("A folder copies to another file system inside it byte by byte, and can't move there", .enabled(if: canMount))
    func acrossFileSystems() async throws {
        try await withTemporaryFolder { root in
            let backend = LocalFolderBackend(root: root)
            let (path, other) = (try RemotePath("file"), try RemotePath("mounted/copy"))
            try await backend.write([1, 2, 3], to: path, when: .always)
            try await withMountedFolder(at: root.appending(component: "mounted")) { _ in
                try await backend.copy(path, to: other, when: .ifAbsent)
                #expect(try await backend.bytes(at: other) == [1, 2, 3])
                await expect(.alreadyExists) { try await backend.copy(path, to: other, when: .ifAbsent) }
                await expect(.unsupported) { try await backend.move(path, to: RemotePath("mounted/moved")) }
                #expect(try await backend.list(RemotePath("mounted"))?.map(\.name) == ["copy"])
            }
        }
    }
}

/// Whether this process may mount file systems.
private let canMount: Bool = {
    guard geteuid() == 0 else { return false }
    let folder = FileManager.default.temporaryDirectory.appending(component: "storesync-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    do {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder.path)
        try run("umount", folder.path)
        return true
    } catch {
        return false
    }
}()

/// Runs `body` with a file system of 1 MiB.
private func withMountedFolder(_ body: (URL) async throws -> Void) async throws {
    try await withTemporaryFolder { try await withMountedFolder(at: $0.appending(component: "mounted"), body) }
}

private func withMountedFolder(at folder: URL, _ body: (URL) async throws -> Void) async throws {
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    try run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder.path)
    // A lazy unmount, so that a descriptor left open by a failed test doesn't keep the file system mounted.
    defer { try? run("umount", "-l", folder.path) }
    try await body(folder)
}

/// Runs a system command, and throws if it fails.
private func run(_ command: String...) throws {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = command
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw BodyFailure() }
}
