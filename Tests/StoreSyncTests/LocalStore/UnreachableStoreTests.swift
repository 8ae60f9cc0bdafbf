import Foundation
import Operations
import Testing

@testable import StoreSync

@Suite("A store in a directory that can't be searched", .timeLimit(.minutes(60)))
struct UnreachableStoreTests {
    private let folder = try? TestStore()

    private func directory() throws -> URL {
        let url = try #require(folder).file("folder")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        return url
    }

    /// Makes a directory unreachable for every user, which permissions don't do for root.
    private func obstruct(_ directory: URL) throws {
        try FileManager.default.removeItem(at: directory)
        try FileManager.default.createSymbolicLink(atPath: directory.path, withDestinationPath: directory.path)
    }

    private func expectUnreachable(_ error: StoreSyncError?, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(error?.code == .storeNotFound, sourceLocation: sourceLocation)
        let namesRemedy = error?.message.contains("check the permissions of its directory") == true
        #expect(namesRemedy, "\(error as Any)", sourceLocation: sourceLocation)
    }

    @Test("A store in a directory that can't be searched isn't taken for a missing store")
    func exists() throws {
        let directory = try directory()
        let store = try LocalStore(directory.appending(path: "store.sqlite"))
        #expect(try !store.exists)
        try obstruct(directory)
        expectUnreachable(#expect(throws: StoreSyncError.self) { try store.exists })
        expectUnreachable(#expect(throws: StoreSyncError.self) { try StoreSnapshot.checkExists(store) })
        let path = directory.appending(path: "inner/store.sqlite")
        expectUnreachable(#expect(throws: StoreSyncError.self) { try LocalStore(path) })
    }

    @Test("Applied sets in a directory that can't be read aren't taken for missing")
    func appliedSets() throws {
        let directory = try directory()
        try obstruct(directory)
        let document = DocumentKey(application: ApplicationKey(remote: "r", application: "a"), document: "d")
        let sets = AppliedSetsDirectory(directory, path: "store.sqlite", document: document)
        let copy = directory.deletingLastPathComponent().appending(path: "copy")
        for body in [
            { try sets.copyOrCreate(.appliedSyncChangeSets, at: copy) }, { _ = try sets.setAside() },
            { try sets.commit() },
        ] {
            let error = #expect(throws: StoreSyncError.self) { try body() }
            #expect(error?.code == .cannotWrite && error?.message.contains("can't be read") == true)
        }
        #expect(!FileManager.default.fileExists(atPath: copy.path))
    }

    @Test("The error of a file that SQLite can't create consists of whole sentences")
    func sentences() throws {
        let url = try directory().appending(path: "missing/file")
        let error = #expect(throws: StoreSyncError.self) { try AppliedSets.create(at: url) }
        #expect(error?.message.contains(". Make room") == true, "\(error?.message ?? "")")
    }

    @Test(
        "A push and a synchronization say that a store's directory can't be searched",
        .enabled(if: geteuid() != 0, "root may search everywhere")
    )
    func permissions() async throws {
        let device = try Fixture().device("a")
        let directory = try directory()
        let store = directory.appending(path: "store.sqlite")
        try Store.write(["one"], to: store)
        try #require(chmod(directory.path, 0) == 0)
        defer { chmod(directory.path, 0o700) }
        expectUnreachable(await #expect(throws: StoreSyncError.self) { try await device.push(store).value })
        let synchronizing = device.with(store: store)
        expectUnreachable(
            await #expect(throws: StoreSyncError.self) { try await synchronizing.synchronize().value }
        )
    }
}
