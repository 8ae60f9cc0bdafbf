import Foundation
import Testing

@testable import StoreSync

@Suite("Opening a state directory", .timeLimit(.minutes(60)))
@MainActor struct StateDirectoryOpeningTests {
    @Test("It doesn't block the caller's actor while another process opens the directory")
    func opensElsewhere() async throws {
        let fixture = try StateFixture()
        let url = fixture.url
        _ = try fixture.open()
        let opening = try FileLock(waitingAt: url.appending(path: "locks/opening"))
        let state = Task { try await StateDirectory.open(at: url) }
        // The main actor runs the task until it suspends.
        await Task.yield()
        opening.release()
        #expect(try await state.value.url == url)
        withExtendedLifetime(fixture) {}
    }
}
