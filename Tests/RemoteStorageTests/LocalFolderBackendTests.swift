import FileSupport
import Foundation
import SystemPackage
import Testing
import ThreadSupport

@testable import RemoteStorage

@Suite("A folder", .timeLimit(.minutes(60)))
struct LocalFolderBackendTests {
    @Test("A folder that doesn't exist is an error, and isn't created")
    func missingRoot() async throws {
        try await withTemporaryFolder { folder in
            let root = folder.appending(component: "share")
            try await expectEveryRequest(of: LocalFolderBackend(root: root), throws: .unavailable)
            #expect(!FileManager.default.fileExists(atPath: root.path))
            try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
            #expect(try await LocalFolderBackend(root: root).list(.root) == [])
        }
    }

    @Test("A folder that can't be opened is named by its path in the file system, not as “/”")
    func unreadableRoot() async throws {
        try await withTemporaryFolder { folder in
            let root = folder.appending(component: String(repeating: "x", count: 300))
            let error = await #expect(throws: RemoteError.self) { try await LocalFolderBackend(root: root).list(.root) }
            #expect(
                error?.code == .invalidPath && error?.message.contains(root.path) == true,
                "\(String(describing: error))"
            )
            for cause in [
                Errno.permissionDenied, .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels,
            ] {
                let error = RemoteError(cause, at: .root, in: "/mnt/share")
                #expect(error.message.contains("“/mnt/share”") && !error.message.contains("“/”"), "\(error)")
            }
            let loop = folder.appending(component: "loop")
            try FileManager.default.createSymbolicLink(atPath: loop.path, withDestinationPath: "loop")
            let looping = await #expect(throws: RemoteError.self) {
                try await LocalFolderBackend(root: loop).list(.root)
            }
            #expect(
                looping?.code == .notAllowed
                    && looping?.message.contains("/loop” leads into a loop") == true,
                "\(String(describing: looping))"
            )
        }
    }

    @Test("A directory that gets new files while it's removed is reported as that, not as an unreachable disk")
    func busyDirectory() throws {
        let error = RemoteError(.directoryNotEmpty, at: try RemotePath("busy"), in: "/mnt/share")
        #expect(error.code == .unavailable)
        #expect(error.message.contains("“busy” got new files") && !error.message.contains("disk"), "\(error)")
    }

    @Test("An error of permissions names the folder, too, because a file that can't be created has none")
    func permissions() throws {
        for cause in [Errno.permissionDenied, .notPermitted] {
            let error = RemoteError(cause, at: try RemotePath("folder/new"), in: "/mnt/share")
            #expect(error.code == .notAllowed)
            #expect(error.message.hasPrefix("The permissions of “folder/new”, or of the folder it's in, "), "\(error)")
        }
    }

    @Test("A folder signals changes in a directory that doesn't exist yet, also to a backend that forwards")
    func changes() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let directory = try RemotePath("one/two")
            guard Folder(path: folder.path).isOnThisDevice else { return }
            var changes = try #require(await Forwarder(base: backend).changes(in: directory)).makeAsyncIterator()
            try await backend.write([1], to: directory.appending("file"), when: .always)
            var names: [String]?
            while names != ["file"], await changes.next() != nil {
                names = try await backend.list(directory)?.map(\.name)
            }
            #expect(names == ["file"])
        }
        let none = await InMemoryBackend().changes(in: .root)
        #expect(none == nil)
    }

    @Test("A folder signals changes in a directory that came without an event, once the directory was listed")
    func changesAfterMount() async throws {
        try await withTemporaryFolder { folder in
            guard Folder(path: folder.path).isOnThisDevice else { return }
            // The folder has no event of what the link leads to.
            let (root, link) = (folder.appending(path: "elsewhere/root"), folder.appending(path: "link"))
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: root)
            let backend = LocalFolderBackend(root: link)
            var changes = try #require(await backend.changes(in: .root)).makeAsyncIterator()
            try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
            #expect(try await backend.list(.root) == [])
            #expect(await changes.next() != nil)
            try await backend.write([1], to: RemotePath("file"), when: .always)
            #expect(await changes.next() != nil)
        }
    }

    private actor Forwarder: ForwardingBackend {
        nonisolated let base: any RemoteBackend

        init(base: any RemoteBackend) { self.base = base }
    }

    @Test("A file in place of the folder is an error")
    func rootIsAFile() async throws {
        try await withTemporaryFolder { folder in
            let root = folder.appending(component: "file")
            try Data([1]).write(to: root)
            try await expectEveryRequest(of: LocalFolderBackend(root: root), throws: .wrongKind)
            #expect(try Data(contentsOf: root) == Data([1]))
        }
    }

    @Test("A folder has the same identity for every path that leads to it")
    func identity() async throws {
        try await withTemporaryFolder { folder in
            let root = folder.appending(component: "a share")
            let link = folder.appending(component: "link")
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: root)
            let missing = LocalFolderBackend(root: root).identity
            try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
            let ways = [root, link, root.appending(path: "../a share/", directoryHint: .isDirectory)]
            #expect(Set(ways.map { LocalFolderBackend(root: $0).identity } + [missing]).count == 1)
            #expect(missing.hasPrefix("file:///") && missing.hasSuffix("/a%20share"))
        }
    }

    @Test("A folder hides the temporary files of a crash, and nothing else")
    func hidesPendingFiles() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            for name in [".storesync-1.tmp", ".storesync", "x.tmp"] {
                try await backend.write([1], to: RemotePath("directory").appending(name), when: .always)
            }
            #expect(try await backend.list(RemotePath("directory"))?.map(\.name) == [".storesync", "x.tmp"])
            try await backend.remove(RemotePath("directory"))
            #expect(try await backend.status(of: RemotePath("directory")) == nil)
        }
    }

    @Test("A write removes the temporary files next to it that haven't changed for a week")
    func removesAbandonedFiles() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let days: [(name: String, age: Double)] = [
                (".storesync-old.tmp", 8), (".storesync-recent.tmp", 6), (".storesync-new.tmp", 0),
                (".storesync", 8), ("shared", 8),
            ]
            for (name, age) in days {
                let file = folder.appending(path: name)
                try Data([1]).write(to: file)
                let date = Date(timeIntervalSinceNow: -age * 86_400)
                try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file.path)
            }
            // As while a file is copied.
            try FileManager.default.linkItem(
                at: folder.appending(path: "shared"),
                to: folder.appending(path: ".storesync-copy.tmp")
            )
            try FileManager.default.createDirectory(
                at: folder.appending(path: ".storesync-directory.tmp"),
                withIntermediateDirectories: false
            )
            try await backend.write([1], to: RemotePath("file"), when: .ifAbsent)
            let kept = ["copy", "directory", "new", "recent"].map { ".storesync-\($0).tmp" }
            #expect(try names(in: folder) == [".storesync"] + kept + ["file", "shared"])
        }
    }

    @Test("A folder keeps an interrupted write even while a program that is being started has its descriptor")
    func copiedDescriptor() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let path = try RemotePath("file")
            let copy = Locked<CInt>(-1)
            await #expect(throws: RemoteError.self) {
                try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { _ in
                    let content = RemoteContent(length: nil) {
                        var chunk: [UInt8]? = [1, 2, 3]
                        return {
                            if let bytes = chunk.take() { return bytes }
                            let name = try #require(FileManager.default.contentsOfDirectory(atPath: folder.path).first)
                            var (pending, open) = (stat(), stat())
                            stat(folder.appending(path: name).path, &pending)
                            let descriptor = (0..<1024).first { fstat($0, &open) == 0 && open.st_ino == pending.st_ino }
                            copy.withLock { $0 = dup(descriptor ?? -1) }
                            throw RemoteError(.unavailable, "cut off")
                        }
                    }
                    return RemoteContentRest(content, after: 0)
                }
            }
            #expect(copy.withLock { $0 } >= 0)
            try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { kept in
                #expect(kept == 3)
                return RemoteContentRest(RemoteContent([4]), after: kept)
            }
            close(copy.withLock { $0 })
            #expect(try Data(contentsOf: folder.appending(path: "file")) == Data([1, 2, 3, 4]))
        }
    }

    @Test("A write isn't continued in another file that got the name of the interrupted one by a link")
    func linkedWrites() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let path = try RemotePath("file")
            await #expect(throws: RemoteError.self) {
                try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { _ in
                    let cutOff = RemoteContent(length: nil) { { throw RemoteError(.unavailable, "cut off") } }
                    return RemoteContentRest(cutOff, after: 0)
                }
            }
            let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
            try FileManager.default.removeItem(at: folder.appending(path: name))
            let other = folder.appending(path: "other")
            try Data([1, 2, 3]).write(to: other)
            try FileManager.default.linkItem(at: other, to: folder.appending(path: name))
            try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { kept in
                #expect(kept == 0)
                return RemoteContentRest(RemoteContent([4]), after: 0)
            }
            #expect(try Data(contentsOf: folder.appending(path: "file")) == Data([4]))
            #expect(try Data(contentsOf: other) == Data([1, 2, 3]))
        }
    }

    @Test("A folder keeps an interrupted write for one later write, and not after a cancellation")
    func keptWrites() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let path = try RemotePath("file")
            let failing: @Sendable (any Error) -> RemoteContent = { error in
                RemoteContent(length: nil) {
                    var chunk: [UInt8]? = [1, 2, 3]
                    return {
                        guard let bytes = chunk.take() else { throw error }
                        return bytes
                    }
                }
            }
            let cutOff = RemoteError(.unavailable, "cut off")
            let names = { try FileManager.default.contentsOfDirectory(atPath: folder.path) }
            await #expect(throws: RemoteError.self) {
                try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { _ in
                    RemoteContentRest(failing(cutOff), after: 0)
                }
            }
            #expect(try names().count == 1)
            try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { kept in
                #expect(kept == 3)
                try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { kept in
                    #expect(kept == 0, "the other write owns the kept bytes")
                    return RemoteContentRest(RemoteContent([9]), after: 0)
                }
                return RemoteContentRest(RemoteContent([7]), after: 2)
            }
            #expect(try Data(contentsOf: folder.appending(path: "file")) == Data([1, 2, 7]))
            #expect(try names() == ["file"])
            await #expect(throws: CancellationError.self) {
                try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { _ in
                    RemoteContentRest(failing(CancellationError()), after: 0)
                }
            }
            #expect(try names() == ["file"])
            // Written before the last restart of the device: the bytes may not have reached the medium.
            let former = ".storesync-\(UUID().uuidString.lowercased())-file.tmp"
            try Data([8, 8]).write(to: folder.appending(path: former))
            try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { kept in
                #expect(kept == 0)
                return RemoteContentRest(RemoteContent([5]), after: 0)
            }
            #expect(try await backend.list(.root)?.map(\.name) == ["file"])
            try FileManager.default.removeItem(at: folder.appending(path: former))
            // The name is so long that the longer temporary name isn't valid.
            let long = try RemotePath(String(repeating: "x", count: 250))
            await #expect(throws: RemoteError.self) {
                try await backend.resumeWrite(to: long, when: .always, receipts: InMemoryReceipts()) { _ in
                    RemoteContentRest(failing(cutOff), after: 0)
                }
            }
            #expect(try names() == ["file"])
        }
    }

    @Test("A folder contains no temporary file after any request")
    func noTemporaryFiles() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let (file, copy) = (try RemotePath("file"), try RemotePath("copy"))
            try await backend.write([1], to: file, when: .ifAbsent)
            try await backend.write([2], to: file, when: .always)
            await expect(.alreadyExists) { try await backend.write([3], to: file, when: .ifAbsent) }
            await #expect(throws: BodyFailure.self) { try await backend.write(.failing, to: file, when: .always) }
            try await backend.copy(file, to: copy, when: .ifAbsent)
            // The copy is a hard link to the same file: rename(2) then does nothing, and leaves both names.
            try await backend.copy(file, to: copy, when: .always)
            await expect(.alreadyExists) { try await backend.copy(file, to: copy, when: .ifAbsent) }
            #expect(try names(in: folder) == ["copy", "file"])

            let (started, signal) = AsyncStream<Never>.makeStream()
            let write = Task { try await backend.write(.endless(reached: signal), to: file, when: .always) }
            for await _ in started {}
            #expect(try names(in: folder).count == 3)
            write.cancel()
            await #expect(throws: CancellationError.self) { try await write.value }
            #expect(try names(in: folder) == ["copy", "file"])
        }
    }

    @Test("A folder doesn't list names that aren't UTF-8, and removes them with their directory")
    func foreignNames() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            try await backend.write([1], to: RemotePath("directory/a"), when: .always)
            let name = Array(folder.appending(path: "directory/").path.utf8) + [0x2F, 0xFF, 0xFE, 0]
            let made = name.withUnsafeBufferPointer { name in
                name.withMemoryRebound(to: CChar.self) { name in
                    name.baseAddress.map {
                        try? FileDescriptor.open($0, .writeOnly, options: .create, permissions: .ownerReadWrite)
                    }
                }
            }
            try made??.close()
            #expect(try await backend.list(RemotePath("directory"))?.map(\.name) == ["a"])
            try await backend.remove(RemotePath("directory"))
            #expect(try await backend.list(.root) == [])
        }
    }

    @Test("A folder removes a directory of up to 100 levels, and names one with more")
    func deepDirectories() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            let level = Array(repeating: "level", count: 98)
            try await backend.write([1], to: RemotePath(components: ["deep", "a"] + level + ["file"]), when: .always)
            let error = await #expect(throws: RemoteError.self) {
                try await backend.createDirectory(at: RemotePath(components: ["deep", "a"] + level + ["level"]))
                try await backend.remove(RemotePath("deep"))
            }
            #expect(error?.code == .notAllowed, "\(error as Any)")
            #expect(error?.message.contains("“deep” has more than 100 levels of folders") == true, "\(error as Any)")
            try await backend.remove(RemotePath("deep/a"))
            #expect(try await backend.list(RemotePath("deep")) == [])
        }
    }

    @Test("A move in a folder never replaces a file, even on file systems without exclusive renames")
    func moveWithoutExclusiveRename() async throws {
        try await withTemporaryFolder { folder in
            let backend = LocalFolderBackend(root: folder)
            try await backend.write([1], to: RemotePath("file"), when: .always)
            try await backend.write([2], to: RemotePath("other"), when: .always)
            try await backend.write([3], to: RemotePath("directory/x"), when: .always)
            try await backend.createDirectory(at: RemotePath("empty"))
            let root = try Directory(path: folder.path)
            for (source, destination) in [
                ("file", "other"), ("directory", "empty"), ("empty", "directory"), ("file", "empty"),
            ] {
                #expect(throws: Errno.fileExists) {
                    try root.moveWithoutExclusiveRename(source, to: root, destination)
                }
            }
            try root.moveWithoutExclusiveRename("file", to: root, "new file")
            try root.moveWithoutExclusiveRename("directory", to: root, "new directory")
            #expect(try await backend.bytes(at: RemotePath("new file")) == [1])
            #expect(try await backend.bytes(at: RemotePath("new directory/x")) == [3])
            #expect(try names(in: folder) == ["empty", "new directory", "new file", "other"])
        }
    }

    @Test("A folder's files and directories have the permissions that the umask leaves")
    func permissions() async {
        // umask(2) applies to the whole process: only a separate process can change it without affecting other tests.
        await #expect(processExitsWith: .success) {
            umask(0o027)
            try await withTemporaryFolder { folder in
                let backend = LocalFolderBackend(root: folder)
                try await backend.write([1], to: RemotePath("directory/file"), when: .always)
                let mode = { (name: String) in try Stat(FilePath(folder.appending(path: name).path)).permissions }
                try #require(mode("directory") == FilePermissions(rawValue: 0o750))
                try #require(mode("directory/file") == FilePermissions(rawValue: 0o640))
            }
        }
    }

    #if os(Linux)
    @Test("Requests to a folder leave no descriptor open")
    func descriptors() async {
        // In a separate process, because other tests open descriptors at the same time.
        await #expect(processExitsWith: .success) {
            try await withTemporaryFolder { folder in
                let backend = LocalFolderBackend(root: folder)
                try await useEverything(of: backend)
                let before = try names(in: URL(filePath: "/proc/self/fd")).count
                let rounds = 50
                for _ in 0..<rounds { try await useEverything(of: backend) }
                // A released reader closes its file later, on its own thread: the last files may still be open.
                try #require(names(in: URL(filePath: "/proc/self/fd")).count < before + rounds / 2)
            }
        }
    }
    #endif
}

/// Sends requests of every kind, of which some fail, and leaves the storage empty.
private func useEverything(of backend: any RemoteBackend) async throws {
    let (file, copy, moved) = (try RemotePath("a/file"), try RemotePath("a/copy"), try RemotePath("moved"))
    try await backend.write([UInt8](repeating: 1, count: 3000), to: file, when: .always)
    await expect(.alreadyExists) { try await backend.write([2], to: file, when: .ifAbsent) }
    await #expect(throws: BodyFailure.self) { try await backend.write(.failing, to: file, when: .always) }
    _ = try await backend.bytes(at: file)
    for try await _ in try #require(try await backend.read(file)) { break }
    _ = try await backend.read(file)
    try await backend.copy(file, to: copy, when: .always)
    _ = try await backend.list(RemotePath("a"))
    try await backend.move(RemotePath("a"), to: moved)
    await expect(.wrongKind) { try await backend.list(moved.appending("file")) }
    try await backend.remove(moved)
}

/// Expects that every request throws this code.
func expectEveryRequest(of backend: any RemoteBackend, throws code: RemoteError.Code) async throws {
    let (path, other) = (try RemotePath("a/file"), try RemotePath("other"))
    await expect(code) { try await backend.status(of: .root) }
    await expect(code) { try await backend.status(of: path) }
    await expect(code) { try await backend.list(.root) }
    await expect(code) { try await backend.list(path) }
    await expect(code) { try await backend.createDirectory(at: .root) }
    await expect(code) { try await backend.createDirectory(at: path) }
    await expect(code) { try await backend.read(path) }
    await expect(code) { try await backend.write([1], to: path, when: .always) }
    await expect(code) { try await backend.copy(path, to: other, when: .always) }
    await expect(code) { try await backend.move(path, to: other) }
    await expect(code) { try await backend.remove(path) }
}

/// Returns all names in a folder, including the hidden ones.
func names(in folder: URL) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
}
