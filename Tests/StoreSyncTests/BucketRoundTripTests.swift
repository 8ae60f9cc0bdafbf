import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing
import ThreadSupport

@testable import RemoteStorageS3
@testable import StoreSync

@Suite("The depth of operations in HTTP round trips to a bucket", .timeLimit(.minutes(60)))
struct BucketRoundTripTests {
    /// Returns the length of the longest chain of HTTP requests that waited for each other, and the number of requests.
    private func measure(
        of fixture: Fixture,
        _ name: String,
        _ objects: Locked<DistantBucket.Objects>,
        _ body: @escaping @Sendable (Device) async throws -> Void
    ) async throws -> (depth: Int64, requests: Int) {
        let before = objects.withLock { $0.requests }
        let depth = try await fixture.depth(of: name) { clock in
            let bucket = DistantBucket(objects: objects, clock: clock)
            return S3Backend(try DistantBucket.configuration(), transport: bucket)
        } _: {
            try await body($0)
        }
        return (depth, objects.withLock { $0.requests } - before)
    }

    // A file that was listed before needs no status request before it's written.
    @Test(
        "Registering, pushing and pulling stay within their limits of HTTP round trips to a bucket",
        arguments: [false, true]
    )
    func limits(isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let objects = Locked(DistantBucket.Objects())
        let first = try await measure(of: fixture, "a", objects) { _ = try await $0.register().value }
        #expect(first.depth <= 6 && first.requests <= 22, "\(first)")
        let known = try await measure(of: fixture, "a", objects) { _ = try await $0.register().value }
        #expect(known.depth <= 2 && known.requests <= 14, "\(known)")
        try fixture.device("a").write("one")
        let push = try await measure(of: fixture, "a", objects) { _ = try await $0.push().value }
        #expect(push.depth <= (isSealed ? 10 : 10 + 2) && push.requests <= 59, "\(push)")
        try fixture.device("a").write("two")
        let again = try await measure(of: fixture, "a", objects) { _ = try await $0.push().value }
        #expect(again.depth <= (isSealed ? 6 : 6 + 2) && again.requests <= 47, "\(again)")
        let pull = try await measure(of: fixture, "c", objects) { _ = try await $0.pull().value }
        // The last two write the time of the pull.
        #expect(pull.depth <= 14 + 2 && pull.requests <= 50, "\(pull)")
        #expect(try fixture.device("c").notes() == ["one", "two"])
    }

    @Test(
        "A push by an unregistered device to an empty bucket stays within its limit of HTTP round trips",
        arguments: [false, true]
    )
    func everythingNew(isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let objects = Locked(DistantBucket.Objects())
        try fixture.device("a").write("one")
        let push = try await measure(of: fixture, "a", objects) { _ = try await $0.push().value }
        #expect(push.depth <= 16, "\(push)")
    }

    @Test("The status of 100 documents is four round trips deep")
    func status() async throws {
        let fixture = try Fixture()
        let objects = Locked(DistantBucket.Objects())
        try fixture.device("a").write("one")
        _ = try await measure(of: fixture, "a", objects) { _ = try await $0.push().value }
        objects.withLock { objects in
            for (key, bytes) in objects.bytes where key.contains("/Documents/notes/") {
                for number in 0..<99 {
                    objects.bytes[key.replacing("/Documents/notes/", with: "/Documents/document-\(number)/")] = bytes
                }
            }
        }
        let status = try await measure(of: fixture, "a", objects) { device in
            let status = try await device.status().value
            #expect(status.documents.count == 100)
            #expect(status.documents.allSatisfy { $0.stores.count == 1 })
        }
        #expect(status.depth <= 4, "\(status)")
    }
}
