import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing
import ThreadSupport

@testable import RemoteStorageWebDAV
@testable import StoreSync

@Suite("The requests to a WebDAV share", .timeLimit(.minutes(60)))
struct ShareRoundTripTests {
    /// Returns the length of the longest chain of HTTP requests that waited for each other, and the number of requests.
    private func measure(
        of fixture: Fixture,
        _ name: String,
        _ kind: DistantShare.Kind,
        _ contents: Locked<DistantShare.Contents>,
        _ body: @escaping @Sendable (Device) async throws -> Void
    ) async throws -> (depth: Int64, requests: Int) {
        let before = contents.withLock { $0.requests }
        let depth = try await fixture.depth(of: name) { clock in
            let share = DistantShare(kind: kind, contents: contents, clock: clock)
            return WebDAVBackend(try DistantShare.configuration(), transport: share)
        } _: {
            try await body($0)
        }
        return (depth, contents.withLock { $0.requests } - before)
    }

    // More than at a bucket: each directory takes a request of its own, a sent file is checked before it's relied on,
    // and creating a file exclusively takes six requests. If a PUT is atomic, a push to a known document creates no
    // file exclusively. The limits leave room for one more, since concurrent requests may run in another order.
    @Test(
        "Registering, pushing and pulling stay within their limits of round trips",
        arguments: DistantShare.Kind.allCases,
        [false, true]
    )
    func limits(kind: DistantShare.Kind, isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let contents = Locked(DistantShare.Contents())
        let first = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.register().value }
        let known = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.register().value }
        try fixture.device("a").write("one")
        let push = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.push().value }
        try fixture.device("a").write("two")
        let again = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.push().value }
        let pull = try await measure(of: fixture, "c", kind, contents) { _ = try await $0.pull().value }
        #expect(try fixture.device("c").notes() == ["one", "two"])
        let putsAtomically = kind != .wsgiDAV
        #expect(first.depth <= (putsAtomically ? 11 : 16) && first.requests <= 70, "\(first)")
        #expect(known.depth <= 2 && known.requests <= 14, "\(known)")
        #expect(push.depth <= (putsAtomically ? 22 : 36) + (isSealed ? 0 : 10) && push.requests <= 117, "\(push)")
        #expect(again.depth <= (putsAtomically ? 10 : 19) + (isSealed ? 0 : 10) && again.requests <= 86, "\(again)")
        // A pull writes its time at the end, which takes several requests if no PUT is atomic.
        #expect(pull.depth <= (putsAtomically ? 14 : 24) && pull.requests <= 48, "\(pull)")
    }

    @Test(
        "A push by an unregistered device to an empty share stays within its limit of round trips",
        arguments: DistantShare.Kind.allCases,
        [false, true]
    )
    func everythingNew(kind: DistantShare.Kind, isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let contents = Locked(DistantShare.Contents())
        try fixture.device("a").write("one")
        let push = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.push().value }
        #expect(push.depth <= (kind == .wsgiDAV ? 50 : 31) + (isSealed ? 0 : 11), "\(push)")
    }

    @Test(
        "A manifest of which a proxy forwards only half is noticed, and nothing of it remains",
        arguments: [DistantShare.Kind.apache, .lighttpd]
    )
    func cutOffManifest(kind: DistantShare.Kind) async throws {
        let fixture = try Fixture(password: "correct horse")
        let contents = Locked(DistantShare.Contents())
        try fixture.device("a").write("one")
        contents.withLock { $0.cut = "manifest-" }
        await #expect(throws: StoreSyncError.self) {
            _ = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.push().value }
        }
        _ = try await measure(of: fixture, "a", kind, contents) { device in
            _ = try await device.push().value
            let report = try await device.verify().value
            #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
        }
        #expect(contents.withLock { $0.entries.keys.count { $0.contains("/manifest-") } } == 1)
    }

    @Test("Creating a directory concurrently where a file exists fails at least once, and the file stays a file")
    func fileInTheWay() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let contents = Locked(DistantShare.Contents())
            contents.withLock { $0.entries["file"] = .file([1]) }
            let share = DistantShare(kind: .apache, contents: contents, clock: simulation.clock)
            let backend = WebDAVBackend(try DistantShare.configuration(), transport: share)
            let path = try RemotePath("file")
            let codes = await withTaskGroup(of: RemoteError.Code?.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        do {
                            try await backend.createDirectory(at: path)
                            return nil
                        } catch {
                            return (error as? RemoteError)?.code
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes.contains(.wrongKind), "\(codes)")
            await #expect(throws: RemoteError.self) { try await backend.createDirectory(at: path) }
            await #expect(throws: RemoteError.self) {
                try await backend.write([2], to: path.appending("inside"), when: .always)
            }
        }
    }

    @Test("The status of 100 documents is four round trips deep", arguments: DistantShare.Kind.allCases)
    func status(kind: DistantShare.Kind) async throws {
        let fixture = try Fixture()
        let contents = Locked(DistantShare.Contents())
        try fixture.device("a").write("one")
        _ = try await measure(of: fixture, "a", kind, contents) { _ = try await $0.push().value }
        contents.withLock { contents in
            for (key, entry) in contents.entries where key.contains("/Documents/notes") {
                for number in 0..<99 {
                    let copy = key.replacing("/Documents/notes", with: "/Documents/document-\(number)")
                    contents.entries[copy] = entry
                }
            }
        }
        let status = try await measure(of: fixture, "a", kind, contents) { device in
            let status = try await device.status().value
            #expect(status.documents.count == 100)
            #expect(status.documents.allSatisfy { $0.stores.count == 1 })
        }
        #expect(status.depth <= 4, "\(status)")
    }
}
