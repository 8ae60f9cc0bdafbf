import Foundation
import RemoteStorage
import RemoteStorageS3
import RemoteStorageTesting
import S3Servers
import ServerFixtures
import Testing
import ThreadSupport

extension S3Tests {
    @Suite("D11: A bucket behind a bad network", .serialized, .enabled(if: S3ServerKind.moto.isInstalled))
    struct FaultTests {
        @Test(
            "Every request to a bucket has the right result, even if any single request has an accident",
            arguments: Accident.combined(S3ServerKind.plainInstalled, Accident.allCases.filter { $0 != .locked })
        )
        func everyRequest(kind: S3ServerKind, accident: Accident) async throws {
            let server = try await S3Server.shared(kind)
            let report = try await accident.strike(
                port: server.port,
                replacesConditionally: true
            ) { port in S3Backend(try server.configuration(port: port)) }
            #expect(report.undisturbed.first == "refused" && report.undisturbed.contains("[3, 4]"))
            #expect(report.requests > 60)
            #expect(report.deviations == [])
        }

        @Test(
            "A bucket's write whose reply was lost is recognized, but not another client's write of the same bytes",
            arguments: S3ServerKind.plainInstalled
        )
        func lostReplies(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let path = try RemotePath("file")
            let writes = Locked(0)
            let proxy = try FaultProxy(to: server.port) { _, line in
                guard line.hasPrefix("PUT"), line.contains("/file ") else { return .none }
                return writes.withLock { writes in
                    writes += 1
                    return writes == 1 ? .loseReply : .none
                }
            }
            let configuration = try server.configuration(port: proxy.port, prefix: UUID().uuidString)
            let backend = S3Backend(configuration)
            try await backend.write([1], to: path, when: .ifAbsent)
            // It was sent twice. The second request was refused, and the file was recognized as the first request's.
            #expect(writes.withLock { $0 } == 2)
            #expect(try await backend.bytes(at: path) == [1])
            let tag = try #require(try await backend.status(of: path)?.tag)
            writes.withLock { $0 = 0 }
            try await backend.write([2], to: path, when: .ifMatches(tag))
            #expect(writes.withLock { $0 } == 2)
            #expect(try await backend.bytes(at: path) == [2])
            // A client whose request was lost finds another client's file of the same bytes, and doesn't take it for its own.
            try await backend.remove(path)
            writes.withLock { $0 = 0 }
            let other = S3Backend(try server.configuration(prefix: configuration.prefix))
            let losing = try FaultProxy(to: server.port) { _, line in
                guard line.hasPrefix("PUT"), line.contains("/file ") else { return .none }
                return writes.withLock { writes in
                    writes += 1
                    return writes == 1 ? .loseRequest : .none
                }
            }
            var meddled = try server.configuration(port: losing.port, prefix: configuration.prefix)
            meddled.clock = MeddlingClock { try await other.write([3], to: path, when: .ifAbsent) }
            do {
                try await S3Backend(meddled).write([3], to: path, when: .ifAbsent)
                Issue.record("another client's file was taken for this client's")
            } catch let error as RemoteError {
                #expect(error.code == .alreadyExists)
            }
            #expect(writes.withLock { $0 } == 2)
        }

        @Test(
            "A truncated response of a bucket is never taken for a whole file",
            arguments: [0, 1, 200, 50_000, 199_999]
        )
        func truncatedAnswers(count: Int) async throws {
            let server = try await S3Server.shared(.moto)
            let path = try RemotePath("file")
            let prefix = UUID().uuidString
            let file = [UInt8](repeating: 7, count: 200_000)
            try await S3Backend(server.configuration(prefix: prefix)).write(file, to: path, when: .always)
            let proxy = try FaultProxy(to: server.port) { _, line in
                line.hasPrefix("GET") && line.contains("/file") ? .cutReply(after: count) : .none
            }
            let backend = S3Backend(try server.configuration(port: proxy.port, prefix: prefix))
            do {
                let isWhole = try await backend.read(path)?.bytes(upTo: 1 << 20) == file
                // What the first response lacks may be so little that the second one isn't truncated.
                #expect(isWhole && count == 199_999)
            } catch let error as RemoteError {
                #expect(error.code == .unavailable)
            }
        }

        @Test("A bucket's slow response is read, and a response that never arrives ends the request")
        func slowness() async throws {
            let server = try await S3Server.shared(.moto)
            let path = try RemotePath("file")
            let prefix = UUID().uuidString
            try await S3Backend(server.configuration(prefix: prefix))
                .write([UInt8](repeating: 7, count: 3000), to: path, when: .always)
            let slow = try FaultProxy(to: server.port) { _, _ in .trickle(bytes: 500, milliseconds: 2) }
            let patient = S3Backend(try server.configuration(port: slow.port, prefix: prefix))
            #expect(try await patient.bytes(at: path) == [UInt8](repeating: 7, count: 3000))
            #expect(try await patient.list(.root)?.map(\.name) == ["file"])

            let silent = try FaultProxy(to: server.port) { _, _ in .silence }
            var configuration = try server.configuration(port: silent.port)
            configuration.retries = .none
            configuration.timeouts.read = .milliseconds(100)
            let backend = S3Backend(configuration)
            do {
                _ = try await backend.status(of: path)
                Issue.record("the client waited for a silent server")
            } catch let error as RemoteError {
                #expect(error.code == .unavailable)
            }
        }

        @Test("A write fails if the bucket's server stops accepting a part")
        func standstill() async throws {
            let server = try await S3Server.shared(.moto)
            let proxy = try FaultProxy(to: server.port) { _, line in
                line.hasPrefix("PUT") && line.contains("/file ") ? .standstill : .none
            }
            var configuration = try server.configuration(port: proxy.port)
            configuration.retries = .none
            configuration.partSize = 64 << 20
            configuration.timeouts.write = .milliseconds(100)
            // A client without processor time may take the whole body before it learns that nothing is accepted. Then it's the
            // answer that doesn't come, and the connection is closed with what is unsent.
            configuration.timeouts.read = .seconds(5)
            let backend = S3Backend(configuration)
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write([UInt8](repeating: 7, count: 32 << 20), to: RemotePath("file"), when: .always)
            }
            #expect(error?.code == .unavailable)
            let cause = error?.cause.map { "\($0)" } ?? "none"
            #expect(["writeTimeout", "readTimeout", "closed channel"].contains { cause.contains($0) }, "\(cause)")
        }

        @Test("A missing gateway route isn't taken for a file that exists")
        func missingRoute() async throws {
            let server = try await S3Server.shared(.moto)
            let proxy = try FaultProxy(to: server.port) { _, line in line.hasPrefix("PUT") ? .answer(404) : .none }
            let backend = S3Backend(try server.configuration(port: proxy.port, prefix: UUID().uuidString))
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write([7], to: RemotePath("file"), when: .ifAbsent)
            }
            #expect(error?.code == .unavailable)
        }

        @Test("A request waits as long as the bucket's server asks, up to a limit")
        func retryAfter() async throws {
            let server = try await S3Server.shared(.moto)
            for (header, isPatient) in [("Retry-After: 7", true), ("Retry-After: 3600", false)] {
                let waits = Locked<[Duration]>([])
                let proxy = try FaultProxy(to: server.port) { number, _ in
                    number == 0 ? .answer(503, headers: [header]) : .none
                }
                var configuration = try server.configuration(port: proxy.port)
                configuration.clock = RecordingClock(waits: waits)
                let backend = S3Backend(configuration)
                do {
                    #expect(try await backend.list(.root) == [])
                    #expect(isPatient)
                } catch let error as RemoteError {
                    #expect(!isPatient && error.code == .unavailable && error.message.contains("3600 s"), "\(error)")
                }
                let all = waits.withLock { $0 }
                #expect(all.count == (isPatient ? 1 : 0))
                #expect(all.allSatisfy { $0 > .seconds(6) && $0 < .seconds(8) }, "\(all)")
            }
        }
    }
}

@Suite("A bucket behind a proxy that sends requests twice", .timeLimit(.minutes(60)))
struct S3RepeatedRequestTests {
    @Test(
        "A conditional write that a proxy sends twice succeeds, but not if another client's file is there",
        arguments: [2, 50]
    )
    func writes(count: Int) async throws {
        var bucket = ConditionalBucket(server: "SeaweedFS 30GB 4.48")
        bucket.isBehindRepeatingProxy = true
        let (backend, other, path) = (try bucket.backend(), try bucket.backend(), try RemotePath("file"))
        let versions = (1...3).map { [UInt8](repeating: $0, count: count) }
        // Each knows that there is no file, and so doesn't ask again before it writes.
        for backend in [backend, other] { #expect(try await backend.list(.root) == []) }
        let created = try await backend.write(versions[0], to: path, when: .ifAbsent)
        #expect(bucket.files == ["file": versions[0]])
        let error = await #expect(throws: RemoteError.self) {
            try await other.write(versions[1], to: path, when: .ifAbsent)
        }
        #expect(error?.code == .alreadyExists)
        let replaced = try await backend.write(versions[2], to: path, when: .ifMatches(#require(created.tag)))
        #expect(bucket.files == ["file": versions[2]])
        #expect(try await backend.status(of: path)?.tag == replaced.tag)
    }
}

/// A clock whose first wait runs a closure instead.
struct MeddlingClock: Clock {
    typealias Instant = ContinuousClock.Instant

    private let body: @Sendable () async throws -> Void
    private let isOver = Locked(false)

    init(_ body: @escaping @Sendable () async throws -> Void) { self.body = body }

    var now: Instant { .now }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let isFirst = isOver.withLock { isOver in
            defer { isOver = true }
            return !isOver
        }
        if isFirst { try await body() }
    }
}
