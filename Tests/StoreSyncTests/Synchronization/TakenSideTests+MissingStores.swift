import Foundation
import Operations
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

/// Stores that are gone before their first synchronization completed, so that neither they nor their replicas have a token.
extension TakenSideTests {
    /// Steps at which a device dies.
    private struct Steps: Hashable, Sendable {
        var prefix = ""
        var suffix: String

        static let capture = Steps(suffix: "captured")
        static let recordOfPull = Steps(prefix: "before pull", suffix: "before pull")
        static let readOfHead = Steps(prefix: "before read of", suffix: ".recentsync")

        func contain(_ step: String) -> Bool { step.hasPrefix(prefix) && step.hasSuffix(suffix) }
    }

    /// Two devices, and a third one whose store is gone; the newest baseline has a note that its replica lacks.
    private func missingStore(
        _ fixture: Fixture,
        _ deadly: Locked<Steps?>
    ) async throws -> (a: Device, b: Device, c: Device) {
        let (a, b) = try await devices(fixture)
        let c = try fixture.device("c") { step in
            if deadly.withLock(\.self)?.contain(step) == true { throw CancellationError() }
        }
        deadly.withLock { $0 = .capture }
        await #expect(throws: CancellationError.self) { try await c.synchronize().value }
        deadly.withLock { $0 = nil }
        try a.execute("INSERT INTO note VALUES (NULL, 1, 'later')")
        try await synchronize(a, b)
        #expect(try await a.vacuum().value.isBaselineWritten)
        try FileManager.default.removeItem(at: c.store)
        return (a, b, c)
    }

    private func expectOneNote(_ a: Device, _ b: Device, _ c: Device) async throws {
        try await synchronize(a, b, c)
        for device in [a, b, c] {
            #expect(try content(device).filter { $0.hasPrefix("note later") }.count == 1)
            #expect(try content(device) == content(a))
        }
    }

    @Test("A store that is created again isn't captured, also after the device died when it had created the store")
    func createdBeforeDeath() async throws {
        let fixture = try Fixture()
        let deadly = Locked<Steps?>(nil)
        let (a, b, c) = try await missingStore(fixture, deadly)
        deadly.withLock { $0 = .readOfHead }
        await #expect(throws: CancellationError.self) { try await take(.remote, c) }
        deadly.withLock { $0 = nil }
        #expect(try content(c).contains { $0.hasPrefix("note later") }, "the store was created")
        #expect(await code { try await c.synchronize().value } == .storeReplaced)
        _ = try await take(.remote, c)
        try await expectOneNote(a, b, c)
    }

    @Test("A store that vanishes while it's synchronized is reported as missing, and synchronizes when it's back")
    func vanishing() async throws {
        let fixture = try Fixture()
        let away = fixture.folder.appending(path: "away.sqlite")
        let store = Locked<URL?>(nil)
        let (a, b) = (
            try fixture.device("a"),
            try fixture.device("b") { step in
                guard Steps.readOfHead.contain(step), let url = store.withLock({ $0.take() }) else { return }
                try FileManager.default.moveItem(at: url, to: away)
            }
        )
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try await synchronize(a, b)
        try a.execute("INSERT INTO note VALUES (1, 'milk')")
        try await synchronize(a)
        store.withLock { $0 = b.store }
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .storeNotFound)
        #expect(error?.message.contains("isn't there any more") == true, "\(error as Any)")
        #expect(error?.message.contains("--take remote") == true)
        try FileManager.default.moveItem(at: away, to: b.store)
        try await synchronize(b)
        #expect(try b.query("SELECT title FROM note") == ["milk"])
    }

    @Test(
        "A store that is pulled in place of a missing one isn't captured before the user says what counts",
        arguments: [false, true],
        [false, true]
    )
    func pulled(dies: Bool, isEdited: Bool) async throws {
        try await pull(by: .file, dies: dies, isEdited: isEdited)
    }

    @Test("An edited store isn't captured either if a pull died and nothing tells whether it had replaced the store")
    func pulledWithoutTrace() async throws { try await pull(by: .transaction, dies: true, isEdited: true) }

    private func pull(
        by replacement: WholeStoreDownloadRequest.Replacement,
        dies: Bool,
        isEdited: Bool
    ) async throws {
        let fixture = try Fixture()
        let deadly = Locked<Steps?>(nil)
        let (a, b, c) = try await missingStore(fixture, deadly)
        if dies {
            deadly.withLock { $0 = .recordOfPull }
            await #expect(throws: CancellationError.self) { try await c.pull(replacement: replacement).value }
            deadly.withLock { $0 = nil }
        } else {
            _ = try await c.pull(replacement: replacement).value
        }
        #expect(try content(c).contains { $0.hasPrefix("note later") }, "the newest store was pulled")
        // With the former store, the pulled rows would be taken for edits.
        if isEdited { try c.execute("INSERT INTO note VALUES (NULL, 1, 'of c')") }
        #expect(await code { try await c.synchronize { $0.isPreview = true }.value } == .storeReplaced)
        for _ in 0..<2 { #expect(await code { try await c.synchronize().value } == .storeReplaced) }
        _ = try await take(.remote, c)
        try await expectOneNote(a, b, c)
    }

    @Test("A store that is gone and whose replica is damaged is created again, and the replica is built again")
    func damagedReplica() async throws {
        let fixture = try Fixture()
        let (a, b, c) = try await missingStore(fixture, Locked(nil))
        try Data(repeating: 7, count: 8192).write(to: #require(c.state.replicas().first))
        var request = SynchronizationRequest(url: c.store, takenSide: .remote)
        #expect(await code { try await c.synchronize(request).value } == .corrupt)
        request.rebuildsReplica = true
        #expect(try await c.synchronize(request).value.publishedChanges == 0)
        try await expectOneNote(a, b, c)
    }

    @Test("A store that is created again isn't captured if the replica is built again at the same time")
    func createdAndRebuilt() async throws {
        let fixture = try Fixture()
        let (a, b, c) = try await missingStore(fixture, Locked(nil))
        var request = SynchronizationRequest(url: c.store, takenSide: .remote)
        request.rebuildsReplica = true
        #expect(try await c.synchronize(request).value.publishedChanges == 0)
        try await expectOneNote(a, b, c)
    }
}
