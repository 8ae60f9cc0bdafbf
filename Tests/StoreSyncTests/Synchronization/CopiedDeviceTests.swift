import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("A device and its copy, which don't see the same files", .timeLimit(.minutes(60)))
struct CopiedDeviceTests {
    private let place = InMemoryBackend()
    private let veil: VeiledBackend
    private let fixture: Fixture
    private let a: Device
    private let b: Device

    init() throws {
        veil = VeiledBackend(place)
        fixture = try Fixture(place: place)
        (a, b) = (try fixture.device("a"), try fixture.device("b"))
    }

    /// Synchronizes both devices, and copies the first one; files may be hidden from the copy.
    private func copy() async throws -> Device {
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        for device in [a, b] { _ = try await device.synchronize().value }
        try fixture.copy(a, to: "twin")
        return try fixture.device("twin", backend: veil)
    }

    private func insert(_ title: String, _ device: Device) throws {
        try device.execute("INSERT INTO note (title) VALUES ('\(title)')")
    }

    /// Hides the heads of a device's client from the copy, and returns their names.
    private func hideHeads(of device: Device) async throws -> [SyncHeadName] {
        let client = try device.client()
        let directory = fixture.hierarchy.document(fixture.document).recentSyncs
        let names = try #require(try await place.list(directory)).compactMap { SyncHeadName($0.name) }
        let heads = names.filter { $0.client.rawValue == client }
        await veil.hide(try heads.map { try directory.appending($0.name) })
        return heads
    }

    @Test("They come to rest although only one of them gets another device's edit, and both have it later")
    func rest() async throws {
        let twin = try await copy()
        for device in [twin, b] {
            try insert(device.name, device)
            _ = try await device.synchronize().value
        }
        #expect(try await hideHeads(of: b).count == 1)
        // The first head says that the hidden edit was seen, the second says that it was not.
        for device in [a, twin] { #expect(try await device.synchronize().value.publishedBytes > 0) }
        for device in [a, twin, a, twin] { #expect(try await device.synchronize().value.publishedBytes == 0) }
        await veil.showAll()
        _ = try await twin.synchronize().value
        for device in [a, twin] { #expect(try Set(device.query("SELECT title FROM note")) == ["b", "twin"]) }
    }

    @Test("A head with a higher number that names fewer sets isn't taken for a storage that was put back")
    func fewerSets() async throws {
        let twin = try await copy()
        for number in 1...3 {
            try insert("a \(number)", a)
            #expect(try await a.recordChanges() == 1)
        }
        for device in [a, b] { _ = try await device.synchronize().value }
        let heads = try await hideHeads(of: a)
        #expect(heads.map(\.number) == [2] && heads.map(\.sequence) == [3])
        for number in 1...2 {
            try insert("twin \(number)", twin)
            _ = try await twin.synchronize().value
        }
        let newest = try #require(try twin.synchronizationMemory()?.newestHead)
        #expect(newest.number == 3 && newest.sequence == 2)
        for _ in 0..<2 { _ = try await b.synchronize().value }
        let read = try b.synchronizationMemory()?.others[newest.client.rawValue]
        #expect(read?.number == 3 && read?.includes(newest) == true)
    }
}
