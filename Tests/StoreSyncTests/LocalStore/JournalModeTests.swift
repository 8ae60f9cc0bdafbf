import Foundation
import Operations
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The journal mode of a store whose replacement was interrupted", .timeLimit(.minutes(60)))
struct JournalModeTests {
    /// The folders that a crash leaves at each step of the replacement of a store in WAL mode.
    private static func images() throws -> [(point: String, store: TestStore)] {
        let store = try TestStore()
        try store.make("old", in: .closedInWALMode)
        let images = Locked<[(point: String, store: TestStore)]>([])
        try store.replace { point in
            let image = try store.image()
            images.withLock { $0.append((point, image)) }
        }
        #expect(try store.names() == ["store"])
        return images.withLock { $0 }
    }

    @Test("The next push restores the journal mode of a store whose replacement was interrupted")
    func push() async throws {
        let fixture = try Fixture()
        for (point, image) in try Self.images() {
            let device = try fixture.device("a \(point)")
            _ = try await device.push(image.url, resolves: true).value
            #expect(try image.journalMode() == "wal", "\(point)")
            #expect(try image.content() == (point == "after the rename" ? "new" : "old"), "\(point)")
            #expect(try image.names().allSatisfy { !$0.contains("journal-mode") }, "\(point)")
        }
    }

    @Test(
        "The next pull restores a store's journal mode, whether or not it replaces the store",
        arguments: ["old", "newer"]
    )
    func pull(content: String) async throws {
        let fixture = try Fixture()
        let source = try TestStore()
        try source.make(content)
        _ = try await fixture.device("source").push(source.url).value
        for (point, image) in try Self.images() {
            let device = try fixture.device("a \(point)")
            _ = try await device.pull(image.url, overwrite: true).value
            #expect(try image.journalMode() == "wal", "\(point)")
            #expect(try image.content() == content, "\(point)")
            #expect(try image.names() == ["store"], "\(point)")
        }
    }
}
