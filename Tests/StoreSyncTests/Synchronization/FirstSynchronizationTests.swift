import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Devices that synchronize a document for the first time at once", .timeLimit(.minutes(60)))
struct FirstSynchronizationTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"

    private func titles(_ device: Device) throws -> Set<String> { try Set(device.query("SELECT title FROM note")) }

    private func fill(_ devices: Device...) throws {
        for device in devices {
            try device.execute("\(Self.schema); INSERT INTO note (title) VALUES ('\(device.name)')")
        }
    }

    @Test(
        "While another device has published its store and not yet the origin, a watch tries again, and nothing is advised"
    )
    func beforeTheOrigin() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try fill(a, b)
        let dying = try fixture.device("a") { step in
            if step.hasPrefix("before write of"), step.hasSuffix("origin.plist") { throw CancellationError() }
        }
        await #expect(throws: CancellationError.self) { try await dying.synchronize().value }
        let files = try fixture.files().keys
        #expect(files.contains { $0.contains("/manifest-") } && !files.contains { $0.hasSuffix("origin.plist") })
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .busy && error?.code.isRetriedByWatch == true, "\(error as Any)")
        #expect(error?.description.contains("for the first time") == true)
        #expect(error?.description.contains("this store is to replace") == false)
        _ = try await a.synchronize().value
        #expect(await code { try await b.synchronize().value } == .unrelatedStore, "now the user says what counts")
        let request = SynchronizationRequest(url: b.store, takes: .both)
        _ = try await b.synchronize(request).value
        _ = try await a.synchronize().value
        #expect(try titles(a) == ["a", "b"] && titles(b) == ["a", "b"])
    }

    @Test("A device whose store is refused because another device's is there joins that device if its origin appears")
    func originAppears() async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try fixture.device("a")
        try fill(a)
        _ = try await a.synchronize().value
        let files = try fixture.files()
        let origin = try #require(files.first { $0.key.hasSuffix("origin.plist") })
        for path in files.keys where path.contains("/RecentSyncs/") && path.hasSuffix(".recentsync") {
            try fixture.put(nil, at: path)
        }
        try fixture.put(nil, at: origin.key)
        let (reads, place) = (Locked(0), fixture.share.appending(path: origin.key))
        let b = try fixture.device("b") { step in
            guard step.hasPrefix("before read of"), step.hasSuffix("origin.plist") else { return }
            let count = reads.withLock { count in
                count += 1
                return count
            }
            // The synchronization and its upload have found none by then.
            if count == 3 { try origin.value.write(to: place) }
        }
        try fill(b)
        _ = try await b.synchronize(SynchronizationRequest(url: b.store, takes: .both)).value
        _ = try await a.synchronize().value
        #expect(try titles(a) == ["a", "b"] && titles(b) == ["a", "b"])
    }
}
