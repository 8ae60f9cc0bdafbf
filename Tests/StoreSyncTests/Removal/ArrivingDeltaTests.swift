import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A delta of a removed client whose manifest hasn't arrived", .timeLimit(.minutes(60)))
struct ArrivingDeltaTests {
    private static let day: TimeInterval = 24 * 60 * 60

    @Test("A removed client's delta whose manifest hasn't arrived keeps that client's uploads for 30 days only")
    func arriving() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        var generator = SplitMix64(seed: 1)
        try RowStore.insert(30, into: b.store, &generator)
        let gone = try await b.push().value.client
        _ = try await a.pull().value
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let delta = UploadName(client: gone, generation: 2, upload: UUID().uuidString)
        let file = fixture.share.appending(path: "\(hierarchy.delta(delta))")
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        try Data([1]).write(to: file)
        _ = try await a.remove(gone).value
        for (days, isKept) in [(0.0, true), (29, true), (31, false)] {
            let later = try fixture.device("a", clockError: days * Self.day)
            try RowStore.update(1, in: later.store, &generator)
            _ = try await later.push().value
            let published = try await PublishedStores.list(DefaultHooks(backend: fixture.remote), hierarchy).published
            #expect(published.contains { $0.client == gone } == isKept, "after \(days) days")
        }
    }
}
