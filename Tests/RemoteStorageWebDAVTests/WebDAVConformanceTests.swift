import Foundation
import RemoteStorage
import RemoteStorageTesting
import RemoteStorageWebDAV
import ServerFixtures
import TestSupport
import Testing
import WebDAVServers

extension WebDAVTests {
    @Suite("D14: A WebDAV share keeps the promises of every backend")
    struct ConformanceTests {
        /// Fewer rounds than in memory, because each needs many requests.
        private static let effort = BackendCheck.Effort(
            rounds: TestDepth.choose(quick: 1, deep: 100),
            racers: 8,
            listedFiles: 100
        )

        @Test(
            "A share on every kind of server keeps the promises of every backend",
            arguments: ServerKind.plainInstalled,
            BackendCheck.all
        )
        func conforms(kind: ServerKind, check: BackendCheck) async throws {
            // nginx doesn't list such names; other checks write and read them.
            guard kind != .nginx || check != .dottedNames else { return }
            let share = try await WebDAVShare(on: kind)
            try await check.run(on: share.backend(), effort: Self.effort)
        }

        @Test(
            "A share with digest authentication, or by TLS, keeps the promises of every backend",
            arguments: [ServerKind.apacheDigest, .apacheTLS].filter(\.isInstalled),
            [BackendCheck.roundTrip, .plainNames, .moving, .exclusiveCreate, .cancelledWrite]
        )
        func protected(kind: ServerKind, check: BackendCheck) async throws {
            let share = try await WebDAVShare(on: kind)
            try await check.run(on: share.backend(), effort: Self.effort)
        }

        @Test(
            "A share at the root of a server lists, writes, moves and removes files",
            arguments: ServerKind.plainInstalled
        )
        func root(kind: ServerKind) async throws {
            // Other tests use the root of this server at the same time, so this one looks only at its own names.
            let share = try await WebDAVShare.root(of: kind)
            let backend = try share.backend()
            #expect(try await backend.status(of: .root)?.kind == .directory)
            let (directory, moved) = (try RemotePath(UUID().uuidString), try RemotePath(UUID().uuidString))
            let (file, movedFile) = (try directory.appending("file"), try moved.appending("file"))
            try await backend.write([1], to: file, when: .ifAbsent)
            await #expect(throws: RemoteError.self) { try await backend.write([2], to: file, when: .ifAbsent) }
            try await backend.move(directory, to: moved)
            #expect(try await backend.bytes(at: file) == nil)
            #expect(try await backend.bytes(at: movedFile) == [1])
            let names = try #require(try await backend.list(.root)?.map(\.name))
            #expect(names.contains("\(moved)") && !names.contains("\(directory)"))
            try await backend.remove(moved)
            #expect(try await backend.status(of: moved) == nil)
        }

        @Test("A share with many files is listed completely", arguments: ServerKind.plainInstalled)
        func thousands(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            let count = kind == .apache ? 2_000 : TestDepth.choose(quick: 300, deep: 2_000)
            let names = (0..<count).map { "a file with the number \($0)" }
            for name in names { try Data([1, 2]).write(to: share.folder.appending(component: name)) }
            let items = try await share.backend().list(.root) ?? []
            #expect(items.map(\.name) == names.sorted())
            #expect(items.allSatisfy { $0.kind == .file && $0.size == 2 && $0.modified != nil })
        }

        @Test("A share claims the capabilities of its server", arguments: ServerKind.plainInstalled)
        func capabilities(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            let backend = try share.backend()
            let known = try await backend.knownCapabilities()
            let needed: RemoteCapabilities = [.exclusiveCreate, .exclusiveDirectoryMove, .rangedRead]
            // rclone doesn't identify itself, so it is probed; asking for known capabilities writes nothing.
            #expect((known == nil) == (kind == .rclone))
            #expect(try FileManager.default.contentsOfDirectory(atPath: share.folder.path).isEmpty)
            let capabilities = try await backend.capabilities()
            #expect(capabilities.isSuperset(of: needed))
            #expect(capabilities.contains(.atomicReplace) == (kind != .rclone))
            #expect(capabilities.contains(.conditionalReplace) == (kind == .lighttpd))
            #expect(capabilities.contains(.consistentRead) == [.lighttpd, .nginx].contains(kind))
            // The probe removes its files.
            #expect(try FileManager.default.contentsOfDirectory(atPath: share.folder.path).isEmpty)
        }

        @Test(
            "A share has no hidden files after files were created and replaced",
            arguments: ServerKind.plainInstalled
        )
        func leavesNothing(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            let backend = try share.backend()
            let path = try RemotePath("directory/file")
            for number in 0..<3 {
                try await backend.write([1], to: path, when: .ifAbsent)
                await #expect(throws: RemoteError.self) { try await backend.write([2], to: path, when: .ifAbsent) }
                try await backend.copy(path, to: RemotePath("directory/copy \(number)"), when: .ifAbsent)
                try await backend.copy(path, to: RemotePath("directory/copy 0"), when: .always)
                try await backend.write([3], to: path, when: .always)
                try await backend.remove(path)
            }
            let left = try FileManager.default.contentsOfDirectory(
                atPath: share.folder.appending(path: "directory").path
            )
            #expect(left.filter { $0 != ".DAV" }.sorted() == ["copy 0", "copy 1", "copy 2"])
        }

        @Test(
            "A client completes the creation of another client that died before its file had its name",
            arguments: [ServerKind.apache, .nginx, .rclone].filter(\.isInstalled)
        )
        func completes(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            let path = try RemotePath("directory/file")
            let first = try share.backend()
            try await first.write([1], to: path, when: .ifAbsent)
            // Reproduces the state between the two moves: the proxy loses every attempt of the second move. The requests
            // are retried, because a server may answer the racing requests of its probe with errors.
            try await first.remove(path)
            let proxy = try FaultProxy(to: share.port) { _, line in
                line.hasPrefix("MOVE") && line.contains("content") ? .loseRequest : .none
            }
            let dying = WebDAVBackend(try share.configuration(port: proxy.port))
            await #expect(throws: RemoteError.self) { try await dying.write([2], to: path, when: .ifAbsent) }
            #expect(try await first.bytes(at: path) == nil)
            // The next client is refused, and completes the winner's file.
            do {
                try await first.write([3], to: path, when: .ifAbsent)
                Issue.record("the file was created a second time")
            } catch let error as RemoteError {
                #expect(error.code == .alreadyExists)
            }
            #expect(try await first.bytes(at: path) == [2])
            #expect(try await first.list(RemotePath("directory"))?.map(\.name) == ["file"])
        }
    }
}
