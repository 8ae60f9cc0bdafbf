import Dispatch
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ServerFixtures
import Testing
import ThreadSupport

@Suite("The transport of a server", .timeLimit(.minutes(60)))
struct HTTPTransportTests {
    /// No credentials; `sending` is called each time that a request is about to be sent.
    private struct Observer: HTTPAuthentication {
        let sending: @Sendable (HTTPRequest) -> Void

        func headers(for request: HTTPRequest, host: String) -> [(String, String)] {
            sending(request)
            return []
        }

        func isChallenged(by headers: HTTPHeaders, after sent: String?, _ count: Int) throws -> Bool { false }
    }

    @Test("A request may wait for a free connection longer than the limit for connecting, and is sent once")
    func queue() async throws {
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let gate = DispatchSemaphore(value: 0)
        let proxy = try FaultProxy(to: 9) { _, line in
            guard !line.contains("/last") else { return .answer(204) }
            arrival.yield()
            // Every request passes as soon as the gate is opened once.
            gate.wait()
            gate.signal()
            return .answer(204)
        }
        var settings = HTTPSettings(origin: "http://127.0.0.1:\(proxy.port)", name: "server") { _, _ in false }
        settings.retries = .none
        settings.timeouts.connect = .seconds(2)
        let rounds = Locked(0)
        let transport = HTTPTransport(
            settings,
            Observer { request in
                guard request.target == "/last" else { return }
                let round = rounds.withLock { rounds in
                    rounds += 1
                    return rounds
                }
                // The first wait has reached the limit.
                if round == 2 { gate.signal() }
            }
        )
        try await withThrowingTaskGroup(of: Int.self) { group in
            var iterator = arrivals.makeAsyncIterator()
            for number in 0..<64 {
                group.addTask {
                    // A request that fails must not stop the test.
                    defer { arrival.yield() }
                    return try await transport.send(
                        HTTPRequest(method: .GET, target: "/\(number)", replyLimit: 1)
                    ).status
                }
                _ = await iterator.next()
            }
            do {
                defer { gate.signal() }
                var request = HTTPRequest(method: .MKCOL, target: "/last", replyLimit: 1)
                request.mayBeRepeated = false
                let response = try await transport.send(request)
                #expect(response.status == 204 && !response.wasRepeated)
            }
            for try await status in group { #expect(status == 204) }
        }
        #expect(rounds.withLock(\.self) >= 2)
        #expect(proxy.lines.count == 65)
    }

    @Test(
        "A request is sent once more after a timeout, and as often as configured if its connection broke",
        arguments: [true, false]
    )
    func unanswered(isSilent: Bool) async throws {
        let proxy = try FaultProxy(to: 9) { _, _ in isSilent ? .silence : .loseRequest }
        var settings = HTTPSettings(origin: "http://127.0.0.1:\(proxy.port)", name: "server") { _, _ in false }
        settings.retries.attempts = 4
        settings.clock = RecordingClock(waits: Locked([]))
        if isSilent { settings.timeouts.read = .milliseconds(100) }
        let count = Locked(0)
        let transport = HTTPTransport(settings, Observer { _ in count.withLock { $0 += 1 } })
        let error = await #expect(throws: RemoteError.self) {
            try await transport.send(HTTPRequest(method: .GET, target: "/", replyLimit: 1))
        }
        #expect(error?.code == .unavailable)
        #expect(count.withLock(\.self) == (isSilent ? 2 : 4))
    }

    @Test("A request asks for an answer that isn't compressed, because the bytes of a file are taken as they arrive")
    func compression() async throws {
        let proxy = try FaultProxy(to: 9) { _, _ in .answer(204) }
        let settings = HTTPSettings(origin: "http://127.0.0.1:\(proxy.port)", name: "server") { _, _ in false }
        let transport = HTTPTransport(settings, Observer { _ in })
        _ = try await transport.send(HTTPRequest(method: .GET, target: "/", replyLimit: 1))
        #expect(proxy.requests.first?.contains("Accept-Encoding: identity\r\n") == true)
    }

    /// A clock on which a second passes each time that it's read.
    private struct HastyClock: Clock {
        private let start = ContinuousClock.now
        private let seconds = Locked(0)

        var now: ContinuousClock.Instant {
            start
                + .seconds(
                    seconds.withLock { seconds in
                        seconds += 1
                        return seconds
                    }
                )
        }
        var minimumResolution: Duration { .nanoseconds(1) }
        func sleep(until deadline: Instant, tolerance: Duration?) async throws {}
    }

    @Test(
        "A body that arrives slower than 100 bytes a second for five minutes is a timeout, and a faster one isn't",
        arguments: [(1, false), (1000, true)]
    )
    func pace(bytesPerSecond: Int, arrives: Bool) async throws {
        let chunk = "\(String(bytesPerSecond, radix: 16))\r\n\(String(repeating: "x", count: bytesPerSecond))\r\n"
        let body = String(repeating: chunk, count: 400) + "0\r\n\r\n"
        let proxy = try FaultProxy(to: 9) { _, _ in
            .send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\(body)".utf8))
        }
        var settings = HTTPSettings(origin: "http://127.0.0.1:\(proxy.port)", name: "server") { _, _ in false }
        settings.clock = HastyClock()
        let transport = HTTPTransport(settings, Observer { _ in })
        // Read at once, and as a stream.
        for limit in [1 << 20, nil] {
            let read = {
                let response = try await transport.send(
                    HTTPRequest(method: .GET, target: "/", replyLimit: limit)
                )
                guard limit == nil else { return response.bytes.count }
                let content = try RemoteContent(response, of: RemotePath("file"), range: nil, "server")
                return try await content.bytes(upTo: 1 << 20).count
            }
            guard !arrives else {
                #expect(try await read() == 400 * bytesPerSecond)
                continue
            }
            let error = await #expect(throws: RemoteError.self) { _ = try await read() }
            #expect(error?.code == .unavailable)
        }
        // A timeout is retried once if the body was to be read at once.
        #expect(proxy.lines.count == (arrives ? 2 : 3))
    }

    @Test(
        "A server may send 100 interim responses before its answer, but not without end",
        arguments: [100, 101, 1000]
    )
    func interimResponses(count: Int) async throws {
        let proxy = try FaultProxy(to: 9) { _, _ in
            let interim = String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: count)
            return .send(Array("\(interim)HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".utf8))
        }
        var settings = HTTPSettings(origin: "http://127.0.0.1:\(proxy.port)", name: "server") { _, _ in false }
        settings.retries = .none
        let transport = HTTPTransport(settings, Observer { _ in })
        let send = { try await transport.send(HTTPRequest(method: .MOVE, target: "/", replyLimit: 1)).status }
        guard count > 100 else {
            #expect(try await send() == 204)
            return
        }
        let error = await #expect(throws: RemoteError.self) { _ = try await send() }
        let cause = error?.cause.map { "\($0)" } ?? "none"
        #expect(error?.code == .unavailable && cause.contains("readTimeout"), "\(cause)")
    }
}
