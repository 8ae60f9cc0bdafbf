import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import S3Servers
import ServerFixtures
import TestSupport
import Testing
import ThreadSupport

@testable import RemoteStorageS3

extension S3Tests {
    @Suite("A file that is sent in parts", .serialized, .enabled(if: S3ServerKind.seaweedFS.isInstalled))
    struct MultipartTests {
        private static let partSize = S3Configuration.smallestPartSize

        /// Bytes that differ from part to part, created when they are read.
        private static func content(
            parts: Int,
            seed: UInt8 = 0,
            announces: Bool = true,
            _ body: @escaping @Sendable (Int) async throws -> Void = { _ in }
        ) -> RemoteContent {
            // The last part is one byte.
            let count = (parts - 1) * partSize + 1
            return RemoteContent(length: announces ? Int64(count) : nil) {
                var offset = 0
                return {
                    guard offset < count else { return nil }
                    try await body(offset / partSize + 1)
                    let size = min(1 << 20, count - offset)
                    defer { offset += size }
                    return [UInt8](repeating: UInt8(truncatingIfNeeded: offset >> 20) &+ seed, count: size)
                }
            }
        }

        private static func holds(_ content: RemoteContent, _ backend: S3Backend, _ path: RemotePath) async throws
            -> Bool
        {
            guard let remote = try await backend.read(path) else { return false }
            return try await remote.bytes(upTo: 1 << 31) == content.bytes(upTo: 1 << 31)
        }

        private static func configuration(_ server: S3Server, port: Int? = nil, prefix: String) throws
            -> S3Configuration
        {
            var configuration = try server.configuration(port: port, prefix: prefix)
            configuration.partSize = partSize
            configuration.parallelParts = 2
            return configuration
        }

        /// Whether a request sends a part.
        private static func isPart(_ line: String) -> Bool { line.hasPrefix("PUT") && line.contains("partNumber=") }

        @Test(
            "A file arrives whole though the connection is often cut, and each cut costs at most one part",
            // moto itself fails on concurrent requests.
            arguments: [S3ServerKind.seaweedFS].filter(\.isInstalled)
        )
        func cuts(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let path = try RemotePath("directory/large")
            let prefix = UUID().uuidString
            // Parts of 5 MiB: 200 of them are a gigabyte, cut every 50 MB.
            let parts = TestDepth.choose(quick: 8, deep: 200)
            let interval = parts > 100 ? 10 : 3
            let counts = Locked((parts: 0, cuts: 0))
            let proxy = try FaultProxy(to: server.port) { _, line in
                guard Self.isPart(line) else { return .none }
                return counts.withLock { counts in
                    counts.parts += 1
                    guard counts.parts % interval == interval - 1 else { return .none }
                    counts.cuts += 1
                    // Alternately cuts the request and loses the reply.
                    return counts.cuts % 2 == 1 ? .cutRequest(after: 3 << 20) : .loseReply
                }
            }
            let backend = S3Backend(try Self.configuration(server, port: proxy.port, prefix: prefix))
            let content = Self.content(parts: parts)
            let written = try await backend.write(content, to: path, when: .ifAbsent)
            let (sent, cuts) = counts.withLock { $0 }
            #expect(cuts >= parts / interval)
            #expect(sent == parts + cuts)
            print("\(parts) parts, \(cuts) cuts, \(sent) sent")
            let status = try await backend.status(of: path)
            #expect(written.size == Int64(parts - 1) * Int64(Self.partSize) + 1)
            #expect(
                status?.size == written.size && status?.tag == written.tag,
                "\(written) \(String(describing: status))"
            )
            #expect(try await Self.holds(content, backend, path))
            #expect(try await backend.list(RemotePath("directory"))?.map(\.name) == ["large"])
        }

        /// Returns a backend, and the proxy that cuts its fourth part off.
        private static func cutting(
            _ kind: S3ServerKind,
            while isBroken: Locked<Bool>
        ) async throws -> (S3Backend, FaultProxy) {
            let server = try await S3Server.shared(kind)
            let proxy = try FaultProxy(to: server.port) { _, line in
                isBroken.withLock { $0 } && line.contains("partNumber=4&") ? .cutRequest(after: 1 << 20) : .none
            }
            return (S3Backend(try configuration(server, port: proxy.port, prefix: UUID().uuidString)), proxy)
        }

        @Test("A multipart write that was cut off resumes where it was cut off", arguments: S3ServerKind.plainInstalled)
        func resumption(kind: S3ServerKind) async throws {
            let path = try RemotePath("large")
            let isBroken = Locked(true)
            let (backend, proxy) = try await Self.cutting(kind, while: isBroken)
            let content = Self.content(parts: 6)
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write(content, to: path, when: .ifAbsent)
            }
            #expect(error?.code == .unavailable)
            #expect(try await backend.status(of: path) == nil)
            isBroken.withLock { $0 = false }
            let before = proxy.lines
            #expect(before.contains { $0.contains("partNumber=3&") })
            try await backend.write(content, to: path, when: .ifAbsent)
            let again = proxy.lines.dropFirst(before.count).filter { Self.isPart($0) }
            // Parts that had arrived aren't sent again.
            #expect(!again.contains { line in (1...3).contains { line.contains("partNumber=\($0)&") } }, "\(again)")
            #expect(again.count <= 3)
            #expect(try await Self.holds(content, backend, path))
            // A write of different content doesn't reuse any part of the former one.
            isBroken.withLock { $0 = true }
            let other = try RemotePath("other")
            await #expect(throws: RemoteError.self) { try await backend.write(content, to: other, when: .always) }
            isBroken.withLock { $0 = false }
            let changed = Self.content(parts: 5, seed: 9)
            try await backend.write(changed, to: other, when: .always)
            #expect(try await Self.holds(changed, backend, other))
        }

        @Test(
            "A multipart write starts over if the server has lost its parts",
            arguments: S3ServerKind.plainInstalled
        )
        func lostUpload(kind: S3ServerKind) async throws {
            let path = try RemotePath("large")
            let isBroken = Locked(true)
            let (backend, proxy) = try await Self.cutting(kind, while: isBroken)
            let content = Self.content(parts: 6)
            await #expect(throws: RemoteError.self) { try await backend.write(content, to: path, when: .ifAbsent) }
            isBroken.withLock { $0 = false }
            let line = try #require(proxy.lines.first { Self.isPart($0) })
            let identifier = try #require(line.firstMatch(of: /uploadId=([^& ]+)/)?.1.removingPercentEncoding)
            await backend.abort(identifier, of: backend.location.key(path))
            do {
                try await backend.write(content, to: path, when: .ifAbsent)
            } catch let error as RemoteError {
                #expect(error.code == .unavailable, "\(error)")
                try await backend.write(content, to: path, when: .ifAbsent)
            }
            #expect(try await Self.holds(content, backend, path))
        }

        /// Content of one piece for each number in `range`, each slightly larger than a part.
        private static func pieces(_ range: Range<Int>, seed: UInt8 = 0, fails: Bool = false) -> RemoteContent {
            RemoteContent(length: nil) {
                var index = range.lowerBound
                return {
                    guard index < range.upperBound else {
                        if fails { throw RemoteError(.unavailable, "the device is dead") }
                        return nil
                    }
                    defer { index += 1 }
                    return [UInt8](repeating: UInt8(index) &+ seed, count: pieceSize)
                }
            }
        }
        private static let pieceSize = partSize + 1000

        @Test(
            "A multipart write resumes in another process with the parts that had arrived before the new content",
            arguments: [S3ServerKind.seaweedFS].filter(\.isInstalled)
        )
        func resumptionElsewhere(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let prefix = UUID().uuidString
            let proxy = try FaultProxy(to: server.port) { _, _ in .none }
            let size = Int64(Self.pieceSize)
            let memory = Locked<[RemotePath: InMemoryReceipts]>([:])
            func receipts(_ path: RemotePath) -> InMemoryReceipts {
                memory.withLock { memory in
                    let receipts = memory[path] ?? InMemoryReceipts()
                    memory[path] = receipts
                    return receipts
                }
            }
            // Every call uses a new backend, as another process would.
            func resume(
                _ path: RemotePath,
                _ condition: WriteCondition = .always,
                _ rest: @Sendable (Int64) async throws -> RemoteContentRest
            ) async throws {
                let backend = S3Backend(try Self.configuration(server, port: proxy.port, prefix: prefix))
                try await backend.resumeWrite(to: path, when: condition, receipts: receipts(path), rest)
            }
            func parts(since count: Int) -> [String] { proxy.lines.dropFirst(count).filter { Self.isPart($0) } }

            func cutOff(_ path: RemotePath, _ condition: WriteCondition = .always) async throws {
                let before = proxy.lines.count
                await #expect(throws: RemoteError.self) {
                    try await resume(path, condition) { kept in
                        #expect(kept == 0)
                        return RemoteContentRest(Self.pieces(0..<5, fails: true), after: 0)
                    }
                }
                // The last piece was read, but hadn't been sent as a part.
                #expect(parts(since: before).count == 4)
            }

            let backend = S3Backend(try Self.configuration(server, prefix: prefix))
            for (name, condition) in [("created", WriteCondition.ifAbsent), ("replaced", .always)] {
                let path = try RemotePath(name)
                try await cutOff(path, condition)
                #expect(try await backend.status(of: path) == nil)
                let before = proxy.lines.count
                try await resume(path, condition) { kept in
                    #expect(kept == 4 * size)
                    return RemoteContentRest(Self.pieces(4..<7), after: kept)
                }
                #expect(parts(since: before).count == 3)
                #expect(try await Self.holds(Self.pieces(0..<7), backend, path))
            }
            // Content that begins within a part follows the parts before it. That part and the later ones are dropped.
            let changed = try RemotePath("changed")
            try await cutOff(changed)
            let asked = Locked<[Int64]>([])
            try await resume(changed) { kept in
                asked.withLock { $0.append(kept) }
                let offset = min(kept, 2 * size + 1)
                let content = offset == kept ? Self.pieces(2..<3, seed: 7) : RemoteContent([])
                return RemoteContentRest(content, after: offset)
            }
            #expect(asked.withLock { $0 } == [4 * size, 2 * size])
            let expected =
                try await Self.pieces(0..<2).bytes(upTo: .max) + Self.pieces(2..<3, seed: 7).bytes(upTo: .max)
            #expect(try await backend.read(changed)?.bytes(upTo: 1 << 28) == expected)
            // In the first case no content remains to be sent. In the second, no kept part is wanted.
            let whole = try RemotePath("whole")
            try await cutOff(whole)
            try await resume(whole) { kept in RemoteContentRest(RemoteContent([]), after: kept) }
            #expect(try await Self.holds(Self.pieces(0..<4), backend, whole))
            let other = try RemotePath("other")
            try await cutOff(other)
            try await resume(other) { _ in RemoteContentRest(Self.pieces(0..<2, seed: 9), after: 0) }
            #expect(try await Self.holds(Self.pieces(0..<2, seed: 9), backend, other))
            // Without receipts no part counts, whatever the server has kept.
            let forgotten = try RemotePath("forgotten")
            try await cutOff(forgotten)
            let identifier = try #require(UploadReceipts(await receipts(forgotten).read())?.identifier)
            await receipts(forgotten).replace(with: [])
            try await resume(forgotten) { kept in
                #expect(kept == 0)
                return RemoteContentRest(Self.pieces(0..<1), after: 0)
            }
            #expect(try await Self.holds(Self.pieces(0..<1), backend, forgotten))
            #expect(try await Self.uploads(server, prefix) == ["\(prefix)/forgotten"])
            await backend.abort(identifier, of: "\(prefix)/forgotten")
            #expect(try await Self.uploads(server, prefix) == [])
            // A cancelled write aborts its upload.
            await #expect(throws: CancellationError.self) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        let content = RemoteContent(length: nil) {
                            var count = 0
                            return {
                                count += 1
                                if count == 3 { withUnsafeCurrentTask { $0?.cancel() } }
                                return [UInt8](repeating: 1, count: Self.pieceSize)
                            }
                        }
                        let backend = S3Backend(try Self.configuration(server, prefix: prefix))
                        try await backend.resumeWrite(
                            to: RemotePath("given up"),
                            when: .always,
                            receipts: InMemoryReceipts()
                        ) { _ in RemoteContentRest(content, after: 0) }
                    }
                    try await group.waitForAll()
                }
            }
            #expect(try await Self.uploads(server, prefix) == [])
        }

        @Test("A multipart write starts over, and leaves no parts behind, if the key may not list uploads")
        func withoutListing() async throws {
            let server = try await S3Server.shared(.seaweedFS)
            let (prefix, path) = (UUID().uuidString, try RemotePath("large"))
            let proxy = try FaultProxy(to: server.port) { _, line in
                line.hasPrefix("GET") && line.contains("uploads=") ? .answer(403) : .none
            }
            let backend = S3Backend(try Self.configuration(server, port: proxy.port, prefix: prefix))
            struct Failure: Error {}
            let receipts = InMemoryReceipts()
            await #expect(throws: Failure.self) {
                try await backend.resumeWrite(to: path, when: .always, receipts: receipts) { kept in
                    #expect(kept == 0)
                    let content = Self.content(parts: 4) { if $0 == 4 { throw Failure() } }
                    return RemoteContentRest(content, after: 0)
                }
            }
            for method in ["GET", "POST"] {
                #expect(proxy.lines.contains { $0.hasPrefix(method) && $0.contains("uploads=") })
            }
            #expect(try await Self.uploads(server, prefix) == [])
            try await backend.resumeWrite(to: path, when: .always, receipts: receipts) { kept in
                RemoteContentRest(Self.pieces(0..<3), after: kept)
            }
            #expect(try await Self.holds(Self.pieces(0..<3), backend, path))
            #expect(try await Self.uploads(server, prefix) == [])
        }

        @Test("A server rejects bytes that changed on the way, of a whole file or of a part")
        func comparison() async throws {
            let server = try await S3Server.shared(.seaweedFS)
            let backend = S3Backend(try server.configuration())
            let key = await backend.location.key(try RemotePath("file"))
            let begun = try await backend.perform(.POST, key, query: ["uploads": ""])
            let identifier = try #require(S3Element(begun.bytes, named: "InitiateMultipartUploadResult")["UploadId"])
            let checks = try await backend.serverProfile()
            #expect(checks.checks == .checksum && checks.checksOfKeptParts == .checksum)
            for query in [[:], ["partNumber": "1", "uploadId": identifier]] {
                // As if a byte had changed on the way. SeaweedFS doesn't verify the signed digest.
                let response = try await backend.perform(
                    .PUT,
                    key,
                    query: query,
                    headers: [("X-Amz-Checksum-Sha256", S3Payload([1, 2]).checksum)],
                    payload: S3Payload([1, 3], [])
                )
                #expect(S3Failure(response)?.code == "BadDigest")
            }
            #expect(try await backend.status(of: RemotePath("file")) == nil)
            await backend.abort(identifier, of: key)
        }

        @Test(
            "A multipart upload whose completion's reply was lost exists once, and is refused if another was first",
            arguments: S3ServerKind.plainInstalled
        )
        func completion(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let path = try RemotePath("large")
            let prefix = UUID().uuidString
            let completions = Locked(0)
            let proxy = try FaultProxy(to: server.port) { _, line in
                guard line.hasPrefix("POST"), line.contains("large?uploadId=") else { return .none }
                return completions.withLock { count in
                    count += 1
                    return count == 1 ? .loseReply : .none
                }
            }
            let backend = S3Backend(try Self.configuration(server, port: proxy.port, prefix: prefix))
            for condition in [WriteCondition.ifAbsent, .always] {
                completions.withLock { $0 = 0 }
                let content = Self.content(parts: 2, announces: false)
                let written = try await backend.write(content, to: path, when: condition)
                #expect(completions.withLock { $0 } == 2)
                #expect(try await backend.status(of: path)?.tag == written.tag)
                #expect(try await Self.holds(content, backend, path))
            }
            try await backend.remove(path)
            let late = Self.content(parts: 2) { part in
                // After the check that the file is absent, and before the upload is completed.
                if part == 2, try await backend.status(of: path) == nil {
                    try await backend.write([1], to: path, when: .ifAbsent)
                }
            }
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write(late, to: path, when: .ifAbsent)
            }
            #expect(error?.code == .alreadyExists)
            #expect(try await backend.bytes(at: path) == [1])
            let uploads = try await Self.uploads(server, prefix)
            #expect(uploads == [], "\(uploads)")
        }

        @Test(
            "Exactly one of several clients that create a file in parts at the same time writes it",
            arguments: [S3ServerKind.seaweedFS].filter(\.isInstalled)
        )
        func race(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let path = try RemotePath("large")
            let configuration = try Self.configuration(server, prefix: UUID().uuidString)
            let winners = try await withThrowingTaskGroup(of: UInt8?.self) { group in
                for seed in UInt8(1)...4 {
                    group.addTask {
                        do {
                            let content = Self.content(parts: 2, seed: seed * 16)
                            try await S3Backend(configuration).write(content, to: path, when: .ifAbsent)
                            return seed
                        } catch let error as RemoteError where error.code == .alreadyExists {
                            return nil
                        }
                    }
                }
                var winners: [UInt8] = []
                for try await winner in group { winners += [winner].compactMap(\.self) }
                return winners
            }
            try #require(winners.count == 1)
            let backend = S3Backend(configuration)
            #expect(try await Self.holds(Self.content(parts: 2, seed: winners[0] * 16), backend, path))
        }

        @Test("A file that is sent in parts is read only as far as they are sent, so that few parts are in memory")
        func memory() async throws {
            let server = try await S3Server.shared(.seaweedFS)
            let prefix = UUID().uuidString
            let proxy = try FaultProxy(to: server.port) { _, _ in .none }
            let backend = S3Backend(try Self.configuration(server, port: proxy.port, prefix: prefix))
            let furthest = Locked(0)
            let content = Self.content(parts: 10) { part in
                let sent = proxy.lines.count { Self.isPart($0) }
                furthest.withLock { $0 = max($0, part - sent) }
            }
            try await backend.write(content, to: RemotePath("large"), when: .always)
            // The part being read, two parts being sent, and the part that shows whether another one follows.
            #expect(furthest.withLock { $0 } <= 4)
        }

        @Test("A multipart write that fails or is cancelled leaves nothing, and removes other clients' old parts")
        func aborting() async throws {
            struct Failure: Error {}
            let server = try await S3Server.shared(.seaweedFS)
            let path = try RemotePath("large")
            let prefix = UUID().uuidString
            let backend = S3Backend(try Self.configuration(server, prefix: prefix))
            await #expect(throws: Failure.self) {
                let content = Self.content(parts: 4) { if $0 == 4 { throw Failure() } }
                try await backend.write(content, to: path, when: .always)
            }
            await #expect(throws: CancellationError.self) {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    let (reached, signal) = AsyncStream<Never>.makeStream()
                    group.addTask {
                        let content = Self.content(parts: 4) { part in
                            guard part == 3 else { return }
                            signal.finish()
                            let never = AsyncStream<Never>.makeStream()
                            for await _ in never.stream {}
                            try Task.checkCancellation()
                        }
                        try await backend.write(content, to: path, when: .always)
                    }
                    for await _ in reached {}
                    group.cancelAll()
                    try await group.waitForAll()
                }
            }
            #expect(try await backend.status(of: path) == nil)
            #expect(try await Self.uploads(server, prefix) == [])

            // A device that vanished leaves its parts. A later client removes them once they are old enough.
            let dying = try FaultProxy(to: server.port) { _, line in
                line.contains("partNumber=3&") || line.hasPrefix("DELETE") ? .loseRequest : .none
            }
            let dead = S3Backend(try Self.configuration(server, port: dying.port, prefix: prefix))
            await #expect(throws: RemoteError.self) {
                try await dead.write(Self.content(parts: 4), to: path, when: .always)
            }
            #expect(try await Self.uploads(server, prefix) == ["\(prefix)/large"])
            let other = try RemotePath("other")
            try await backend.write(Self.content(parts: 2), to: other, when: .always)
            #expect(try await Self.uploads(server, prefix) == ["\(prefix)/large"])
            var impatient = try Self.configuration(server, prefix: prefix)
            impatient.abandonedAfter = .seconds(-60)
            let content = Self.content(parts: 2, seed: 3)
            try await S3Backend(impatient).write(content, to: other, when: .always)
            #expect(try await Self.holds(content, backend, other))
            #expect(try await Self.uploads(server, prefix) == [])
        }

        /// The keys of unfinished uploads, as the server lists them.
        private static func uploads(_ server: S3Server, _ prefix: String) async throws -> [String] {
            let response = try await S3Backend(server.configuration(prefix: "")).perform(.GET, query: ["uploads": ""])
            let list = try S3Element(response.bytes, named: "ListMultipartUploadsResult")
            return list.all("Upload").compactMap { $0["Key"] }.filter { $0.hasPrefix(prefix) }
        }
    }
}
