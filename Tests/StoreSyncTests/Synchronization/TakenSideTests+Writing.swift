import Foundation
import GRDB
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

/// Apps that write to a store while it's given up.
extension TakenSideTests {
    /// The device, whose app writes a word before each request of a kind.
    private func writing(
        _ device: Device,
        _ count: Locked<Int>,
        _ fixture: Fixture,
        before isMeant: @escaping @Sendable (String) -> Bool
    ) throws -> Device {
        try fixture.device(device.name) { step in
            guard isMeant(step) else { return }
            let number = count.withLock { count in
                count += 1
                return count
            }
            try device.execute("INSERT INTO word VALUES ('late \(number)')")
        }
    }

    /// The words of a device's store and of the copies that were set aside.
    private func keptWords(_ device: Device) throws -> Set<String> {
        let folder = device.store.deletingLastPathComponent()
        let stores = try [device] + asides(device).map { device.with(store: folder.appending(path: $0)) }
        return try Set(stores.flatMap { try $0.query("SELECT text FROM word") })
    }

    @Test("What an app writes while the document is fetched that replaces its backup is kept")
    func writtenWhileFetching() async throws {
        let fixture = try Fixture()
        let (a, _) = try await restoredBackup(fixture)
        let count = Locked(0)
        let written = try writing(a, count, fixture) { $0.hasPrefix("before list") && $0.hasSuffix("RecentSyncs") }
        _ = try await take(.remote, written)
        let lists = count.withLock(\.self)
        #expect(lists >= 2)
        #expect(try keptWords(a).isSuperset(of: (1...max(lists, 1)).map { "late \($0)" }))
    }

    @Test("What an app writes while the store is downloaded that replaces its own is kept")
    func writtenWhileDownloading() async throws {
        let fixture = try Fixture()
        _ = try await devices(fixture)
        let c = try otherStore(fixture)
        let count = Locked(0)
        let written = try writing(c, count, fixture) {
            $0.hasPrefix("before read") && $0.hasSuffix(WholeStoreFile.store.rawValue)
        }
        _ = try await take(.remote, written)
        let reads = count.withLock(\.self)
        #expect(reads >= 1)
        #expect(try keptWords(c).isSuperset(of: (1...max(reads, 1)).map { "late \($0)" }))
    }

    @Test("What an app writes between the copy of its store and the replacement is kept, too")
    func writtenBeforeReplacement() async throws {
        let fixture = try Fixture()
        _ = try await devices(fixture)
        let c = try otherStore(fixture)
        let isWritten = Locked(false)
        let written = try fixture.device("c") { step in
            let isFirst = isWritten.withLock { isWritten in
                guard step == "store set aside", !isWritten else { return false }
                isWritten = true
                return true
            }
            if isFirst { try c.execute("INSERT INTO word VALUES ('late')") }
        }
        _ = try await take(.remote, written)
        #expect(try keptWords(c).contains("late"))
        #expect(try asides(c).count == 2)
        #expect(try !c.query("SELECT text FROM word").contains("late"))
    }

    @Test(
        "What an app writes after the copy of a backup that the document replaces is an edit",
        arguments: [false, true]
    )
    func writtenWhileMerging(usesLog: Bool) async throws {
        let fixture = try Fixture()
        let (a, b) = try await restoredBackup(fixture)
        if usesLog { try DatabasePool(path: a.store.path).close() }
        let count = Locked(0)
        let written = try writing(a, count, fixture) { $0 == "store set aside" }
        let result = try await take(.remote, written)
        #expect(count.withLock(\.self) == 1)
        #expect(try asides(a).count == 1 && result.warnings.contains { $0.contains(".aside-") })
        #expect(try a.query("SELECT text FROM word").contains("late 1"))
        try await synchronize(a, b)
        #expect(try content(a) == content(b) && b.query("SELECT text FROM word").contains("late 1"))
    }

    @Test("A store that an app writes to whenever it's about to be replaced stays, and nothing is lost")
    func writtenAllTheTime() async throws {
        let fixture = try Fixture()
        _ = try await devices(fixture)
        let c = try otherStore(fixture)
        let count = Locked(0)
        let written = try writing(c, count, fixture) { $0 == "store set aside" }
        #expect(await code { try await take(.remote, written) } == .busy)
        let words = Set(try c.query("SELECT text FROM word"))
        let writes = count.withLock(\.self)
        #expect(writes > 1 && words.isSuperset(of: (1...writes).map { "late \($0)" }))
    }
}
