import Foundation
import RemoteStorage
import Testing

@testable import StoreSync
@testable import StoreSyncCommand

@Suite("What a status says of a client that merges records")
struct StatusTests {
    private static let day: TimeInterval = 24 * 60 * 60

    private func line(publishedIn seconds: TimeInterval, isRemoved: Bool = false) throws -> String {
        ApplicationStatus.SynchronizingClient(
            client: try RemoteIdentifier("a"),
            sequence: 2,
            behind: 0,
            published: Date.now + seconds,
            logBytes: 0,
            isRemoved: isRemoved
        ).line
    }

    @Test("A client that has published in the future is said to have a wrong clock, and how to remove it if it's gone")
    func future() throws {
        let removal = "; if it's gone: storesync remove client a"
        let line = try line(publishedIn: 3650 * Self.day)
        #expect(line.hasSuffix("Z, in the future: its clock or this device's is wrong\(removal)"), "\(line)")
        #expect(try self.line(publishedIn: -31 * Self.day).hasSuffix("Z\(removal)"))
        for seconds in [-29, -1, 0, 0.9] { #expect(try self.line(publishedIn: seconds * Self.day).hasSuffix("Z")) }
        #expect(try self.line(publishedIn: 3650 * Self.day, isRemoved: true).hasSuffix("Z  (removed)"))
    }
}
