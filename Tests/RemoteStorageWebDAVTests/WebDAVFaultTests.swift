import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import RemoteStorageTesting
import ServerFixtures
import TestSupport
import Testing
import ThreadSupport
import WebDAVServers

@testable import RemoteStorageWebDAV

extension WebDAVTests {
    @Suite("D11 D14: A WebDAV share behind a bad network", .serialized)
    struct FaultTests {
        @Test(
            "Every request to a share has the right result, even if any single request has an accident",
            arguments: Accident.combined(
                (TestDepth.isDeep ? ServerKind.plain : [.apache, .rclone]).filter(\.isInstalled),
                Accident.allCases.filter { $0 != .failure }
            )
        )
        func everyRequest(kind: ServerKind, accident: Accident) async throws {
            let share = try await WebDAVShare(on: kind)
            let report = try await accident.strike(
                port: share.port,
                replacesConditionally: false
            ) { port in
                // Removes the files through the server, because rclone caches what it has seen.
                let janitor = try share.backend()
                for item in try await janitor.list(.root) ?? [] { try await janitor.remove(RemotePath(item.name)) }
                return WebDAVBackend(try share.configuration(port: port))
            }
            #expect(report.undisturbed.first == "refused" && report.requests > 40)
            #expect(report.deviations == [])
        }

        @Test(
            "A share's truncated answer is never returned as a whole file",
            .enabled(if: ServerKind.apache.isInstalled),
            arguments: [0, 1, 200, 50_000, 199_999]
        )
        func truncatedAnswers(count: Int) async throws {
            let share = try await WebDAVShare(on: .apache)
            let path = try RemotePath("file")
            try await share.backend().write([UInt8](repeating: 7, count: 200_000), to: path, when: .always)
            let proxy = try FaultProxy(to: share.port) { _, line in
                line.hasPrefix("GET") ? .cutReply(after: count) : .none
            }
            let backend = WebDAVBackend(try share.configuration(port: proxy.port))
            do {
                _ = try await backend.read(path)?.bytes(upTo: 1 << 20)
                Issue.record("a truncated answer was returned as a whole file")
            } catch let error as RemoteError {
                #expect(error.code == .unavailable)
            }
        }

        @Test(
            "A list of a share whose answer was cut off is requested again",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func truncatedList() async throws {
            let share = try await WebDAVShare(on: .apache)
            let path = try RemotePath("directory")
            let names = (0..<40).map { "\($0)" }.sorted()
            let direct = try share.backend()
            for name in names { try await direct.createDirectory(at: path.appending(name)) }
            let lists = Locked(0)
            // The first list of the directory breaks off in its body, whose beginning the client has read.
            let proxy = try FaultProxy(to: share.port) { _, line in
                guard line.hasPrefix("PROPFIND"), line.contains("/directory ") else { return .none }
                return lists.withLock { lists in
                    lists += 1
                    return lists == 1 ? .cutReply(after: 2000) : .none
                }
            }
            let backend = WebDAVBackend(try share.configuration(port: proxy.port))
            // From here on, the client sends its credentials without being asked.
            #expect(try await backend.status(of: .root) != nil)
            #expect(try await backend.list(path)?.map(\.name) == names)
            #expect(lists.withLock(\.self) == 2)
        }

        @Test(
            "An answer that is too long is an error, and isn't requested again",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func tooLong() async throws {
            let share = try await WebDAVShare(on: .apache)
            let proxy = try FaultProxy(to: share.port) { _, _ in .none }
            let backend = WebDAVBackend(try share.configuration(port: proxy.port))
            #expect(try await backend.status(of: .root) != nil)
            let before = proxy.lines.count
            let request = HTTPRequest(method: .PROPFIND, target: share.path, headers: [("Depth", "0")], replyLimit: 100)
            let transport = await backend.transport
            let error = await #expect(throws: RemoteError.self) { try await transport.send(request) }
            #expect(error?.code == .unavailable && error?.message.contains("too long") == true)
            #expect(proxy.lines.count == before + 1)
        }

        @Test(
            "A slow answer is read, and a server that never answers is an error",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func slowness() async throws {
            let share = try await WebDAVShare(on: .apache)
            let path = try RemotePath("file")
            try await share.backend().write([UInt8](repeating: 7, count: 3000), to: path, when: .always)
            let slow = try FaultProxy(to: share.port) { _, line in
                line.hasPrefix("GET") ? .trickle(bytes: 500, milliseconds: 5) : .none
            }
            let patient = WebDAVBackend(try share.configuration(port: slow.port))
            #expect(try await patient.bytes(at: path) == [UInt8](repeating: 7, count: 3000))

            let silent = try FaultProxy(to: share.port) { _, _ in .silence }
            var configuration = try share.configuration(port: silent.port)
            configuration.retries = .none
            configuration.timeouts.read = .milliseconds(100)
            let backend = WebDAVBackend(configuration)
            do {
                _ = try await backend.status(of: path)
                Issue.record("a silent server answered")
            } catch let error as RemoteError {
                #expect(error.code == .unavailable)
            }
        }

        /// Returns a proxy with a fault of the first moves of written files, and the number of such moves.
        private static func proxy(
            to share: WebDAVShare,
            firstMoves count: Int,
            _ fault: FaultProxy.Fault
        ) throws -> (FaultProxy, Locked<Int>) {
            let moves = Locked(0)
            let proxy = try FaultProxy(to: share.port) { _, line in
                guard line.hasPrefix("MOVE"), line.contains("/content ") else { return .none }
                return moves.withLock { moves in
                    moves += 1
                    return moves <= count ? fault : .none
                }
            }
            return (proxy, moves)
        }

        @Test(
            "A gateway's answer to a move that the server carries out doesn't cost the file",
            .enabled(if: ServerKind.rclone.isInstalled),
            arguments: [408, 502, 504]
        )
        func gateway(status: Int) async throws {
            let share = try await WebDAVShare(on: .rclone)
            let path = try RemotePath("file")
            try await share.backend().write([1], to: path, when: .always)
            let (proxy, moves) = try Self.proxy(to: share, firstMoves: 1, .replaceReply(status))
            let backend = WebDAVBackend(try share.configuration(port: proxy.port))
            try await backend.write([2], to: path, when: .always)
            #expect(try await share.backend().bytes(at: path) == [2])
            #expect(moves.withLock { $0 } == 1)
        }

        @Test(
            "A move whose request is lost is sent again, and still replaces the file",
            .enabled(if: ServerKind.rclone.isInstalled),
            arguments: [1, 2]
        )
        func lostMoves(count: Int) async throws {
            let share = try await WebDAVShare(on: .rclone)
            let path = try RemotePath("file")
            try await share.backend().write([1], to: path, when: .always)
            let (proxy, _) = try Self.proxy(to: share, firstMoves: count, .loseRequest)
            var configuration = try share.configuration(port: proxy.port)
            configuration.clock = RecordingClock(waits: Locked([]))
            try await WebDAVBackend(configuration).write([2], to: path, when: .always)
            #expect(try await share.backend().bytes(at: path) == [2])
        }

        @Test(
            "A write fails if the share's server stops accepting the file",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func standstill() async throws {
            let share = try await WebDAVShare(on: .apache)
            let proxy = try FaultProxy(to: share.port) { _, line in line.hasPrefix("PUT") ? .standstill : .none }
            var configuration = try share.configuration(port: proxy.port)
            configuration.retries = .none
            configuration.timeouts.write = .milliseconds(100)
            // A client without processor time may take the whole body before it learns that nothing is accepted. Then it's the
            // answer that doesn't come, and the connection is closed with what is unsent.
            configuration.timeouts.read = .seconds(5)
            let backend = WebDAVBackend(configuration)
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write([UInt8](repeating: 7, count: 32 << 20), to: RemotePath("file"), when: .always)
            }
            #expect(error?.code == .unavailable)
            let cause = error?.cause.map { "\($0)" } ?? "none"
            #expect(["writeTimeout", "readTimeout", "closed channel"].contains { cause.contains($0) }, "\(cause)")
        }

        @Test(
            "A content can be read after its backend was released",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func releasedBackend() async throws {
            let share = try await WebDAVShare(on: .apache)
            let path = try RemotePath("file")
            let bytes = [UInt8](repeating: 7, count: 16 << 20)
            try await share.backend().write(bytes, to: path, when: .always)
            var backend: WebDAVBackend? = try share.backend()
            let content = try #require(try await backend?.read(path))
            backend = nil
            #expect(try await content.bytes(upTo: 1 << 25) == bytes)
        }

        @Test(
            "A server is identified again after that failed, or after the task that asked was cancelled",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func introduction() async throws {
            let share = try await WebDAVShare(on: .apache)
            let isBroken = Locked(true)
            let proxy = try FaultProxy(to: share.port) { _, line in
                line.hasPrefix("OPTIONS") && isBroken.withLock { $0 } ? .loseReply : .none
            }
            var configuration = try share.configuration(port: proxy.port)
            configuration.retries = .none
            let backend = WebDAVBackend(configuration)
            let path = try RemotePath("file")
            // A list doesn't need the identification.
            #expect(try await backend.list(.root) == [])
            await #expect(throws: RemoteError.self) { try await backend.write([1], to: path, when: .ifAbsent) }
            isBroken.withLock { $0 = false }
            try await backend.write([1], to: path, when: .ifAbsent)
            #expect(try await backend.bytes(at: path) == [1])

            isBroken.withLock { $0 = true }
            let silent = try FaultProxy(to: share.port) { _, line in
                line.hasPrefix("OPTIONS") && isBroken.withLock { $0 } ? .silence : .none
            }
            let other = WebDAVBackend(try share.configuration(port: silent.port))
            let asking = Task { try await other.capabilities() }
            asking.cancel()
            await #expect(throws: CancellationError.self) { try await asking.value }
            isBroken.withLock { $0 = false }
            #expect(try await other.capabilities().contains(.exclusiveCreate))
        }

        @Test(
            "A request waits as long as the share's server asks, but not longer than the configured limit",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func retryAfter() async throws {
            let share = try await WebDAVShare(on: .apache)
            let waits = Locked<[Duration]>([])
            for (header, isPatient) in [("Retry-After: 7", true), ("Retry-After: 3600", false)] {
                let proxy = try FaultProxy(to: share.port) { number, _ in
                    number == 0 ? .answer(503, headers: [header]) : .none
                }
                var configuration = try share.configuration(port: proxy.port)
                configuration.clock = RecordingClock(waits: waits)
                let backend = WebDAVBackend(configuration)
                do {
                    #expect(try await backend.list(.root) == [])
                    #expect(isPatient)
                } catch let error as RemoteError {
                    #expect(!isPatient && error.code == .unavailable && error.message.contains("3600 s"), "\(error)")
                }
            }
            let all = waits.withLock { $0 }
            #expect(all.count == 1)
            #expect(all.allSatisfy { $0 > .seconds(6) && $0 < .seconds(8) }, "\(all)")
        }

        @Test(
            "Redirects on the same server are followed, and another server never gets credentials",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func redirects() async throws {
            let share = try await WebDAVShare(on: .apache)
            let stranger = try FaultProxy(to: share.port) { _, _ in .answer(404) }
            let proxy = try FaultProxy(to: share.port) { number, line in
                switch number {
                case 0: .answer(302, headers: ["Location: \(share.path)"])
                case 3...: .answer(302, headers: ["Location: http://localhost:\(stranger.port)\(share.path)"])
                default: .none
                }
            }
            let backend = WebDAVBackend(try share.configuration(port: proxy.port))
            #expect(try await backend.list(.root) == [])
            do {
                _ = try await backend.list(.root)
                Issue.record("a redirect to another server was followed")
            } catch let error as RemoteError {
                #expect(error.code == .unavailable)
            }
            #expect(stranger.lines.isEmpty)
        }

        @Test(
            "Many concurrent requests to a share have the right results",
            .enabled(if: ServerKind.lighttpd.isInstalled)
        )
        func connections() async throws {
            let share = try await WebDAVShare(on: .lighttpd)
            let backend = try share.backend()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<50 {
                    group.addTask {
                        let path = try RemotePath("\(number % 5)/\(number)")
                        try await backend.write([UInt8](repeating: UInt8(number), count: 5000), to: path, when: .always)
                        #expect(try await backend.bytes(at: path)?.first == UInt8(number))
                    }
                }
                try await group.waitForAll()
            }
        }
    }
}
