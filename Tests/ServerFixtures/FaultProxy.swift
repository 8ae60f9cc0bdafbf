import Foundation
import Synchronization

/// A proxy between a client and a server, which simulates network faults of single requests.
///
/// Each connection carries one request, so that a fault affects only that request.
package final class FaultProxy: Sendable {
    /// The fault of a request.
    package enum Fault: Sendable {
        /// The request is passed on without a fault.
        case none
        /// The proxy answers with a status, and doesn't pass the request on.
        case answer(Int, headers: [String] = [])
        /// The proxy answers with exactly these bytes, and doesn't pass the request on.
        case send([UInt8])
        /// The request is passed on and carried out, and its answer is discarded.
        case loseReply
        /// The connection ends, and the request is never passed on.
        case loseRequest
        /// The connection ends after this many bytes of the request's body.
        case cutRequest(after: Int)
        /// The connection ends after this many bytes of the answer.
        case cutReply(after: Int)
        /// The answer arrives in pieces of this many bytes, with pauses.
        case trickle(bytes: Int, milliseconds: UInt32)
        /// The request isn't answered until the client gives up.
        case silence
        /// The request's body isn't read, and it isn't answered.
        case standstill
        /// The request is passed on and carried out, and its answer is replaced by one with this status.
        case replaceReply(Int)
    }

    package let port: Int
    private let listener: LoopbackSocket
    private let upstream: Int
    private let decide: @Sendable (Int, String) -> Fault
    private let rewrite: @Sendable (String) -> String
    private let heads = Mutex<[String]>([])
    /// Connections at a standstill, which stay open.
    private let halted = Mutex<[LoopbackSocket]>([])

    /// Starts a proxy.
    ///
    /// - Parameters:
    ///   - upstream: The server's port.
    ///   - rewrite: Changes a request's head before it is passed on.
    ///   - decide: Returns the fault of a request, by its number and its first line.
    /// - Throws: The error that prevents the proxy from listening.
    package init(
        to upstream: Int,
        rewriting rewrite: @escaping @Sendable (String) -> String = { $0 },
        _ decide: @escaping @Sendable (Int, String) -> Fault
    ) throws {
        listener = try LoopbackSocket.listening()
        // Its connections have the same limit. Otherwise the system would accept up to the whole body of a request that isn't read.
        listener.limitReceiveBuffer(to: 1 << 18)
        port = listener.port
        self.upstream = upstream
        self.decide = decide
        self.rewrite = rewrite
        Thread.detachNewThread { [listener, weak self] in
            while let connection = listener.accept() {
                Thread.detachNewThread { self?.serve(connection) }
            }
        }
    }

    deinit {
        listener.end()
    }

    /// The heads of all requests, in the order of their arrival.
    package var requests: [String] { heads.withLock { $0 } }

    /// The first lines of all requests.
    package var lines: [String] { requests.map { String($0.prefix { $0 != "\r\n" }) } }

    private func serve(_ client: LoopbackSocket) {
        var received: [UInt8] = []
        var end: Int?
        while end == nil {
            let more = client.read()
            guard !more.isEmpty else { return }
            received += more
            end = received.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound
        }
        guard let end else { return }
        let head = String(decoding: received[..<end], as: UTF8.self)
        let body = Array(received[end...])
        let number = heads.withLock { heads in
            heads.append(head)
            return heads.count - 1
        }
        switch decide(number, String(head.prefix { $0 != "\r\n" })) {
        case .answer(let status, let headers):
            client.send(Self.answer(status, headers: headers))
            client.finish()
        case .send(let bytes):
            client.send(bytes)
            client.finish()
        case .loseRequest: client.end()
        case .silence: while !client.read().isEmpty {}
        case .standstill:
            halted.withLock { $0.append(client) }
        case .replaceReply(let status):
            forward(client, head, body, replyLimit: 0, Self.answer(status, headers: []))
        case .cutRequest(let count): forward(client, head, body, bodyLimit: count)
        case .loseReply: forward(client, head, body, replyLimit: 0)
        case .cutReply(let count): forward(client, head, body, replyLimit: count)
        case .trickle(let bytes, let milliseconds): forward(client, head, body, pieces: bytes, milliseconds)
        case .none: forward(client, head, body)
        }
    }

    private static func answer(_ status: Int, headers: [String]) -> [UInt8] {
        let lines = ["HTTP/1.1 \(status) Fault", "Content-Length: 0", "Connection: close"] + headers
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }

    private func forward(
        _ client: LoopbackSocket,
        _ head: String,
        _ body: [UInt8],
        bodyLimit: Int? = nil,
        replyLimit: Int? = nil,
        _ otherReply: [UInt8] = [],
        pieces: Int? = nil,
        _ milliseconds: UInt32 = 0
    ) {
        guard let server = try? LoopbackSocket.connected(to: upstream) else { return client.end() }
        server.send(Array((rewrite(head).dropLast(1) + "Connection: close\r\n\r\n").utf8))
        Thread.detachNewThread {
            var sent = 0
            var chunk = body
            repeat {
                if let bodyLimit, sent + chunk.count >= bodyLimit {
                    server.send(chunk.prefix(bodyLimit - sent))
                    server.end()
                    return client.end()
                }
                guard server.send(chunk) else { return }
                sent += chunk.count
                chunk = client.read()
            } while !chunk.isEmpty
        }
        var left = replyLimit ?? .max
        while true {
            let reply = server.read(upTo: pieces ?? 1 << 16)
            guard !reply.isEmpty else { break }
            // Waits for discarded bytes, too, so that the request has been carried out when the connection ends.
            if left > 0 { client.send(reply.prefix(left)) }
            left = left == .max ? left : max(0, left - reply.count)
            if milliseconds > 0 { usleep(milliseconds * 1000) }
        }
        server.end()
        client.send(otherReply)
        client.end()
    }
}

extension LoopbackSocket {
    /// Ends a connection after the sent bytes have arrived: reads until the client stops sending.
    fileprivate func finish() {
        shutdown(descriptor, Int32(SHUT_WR))
        while !read().isEmpty {}
    }
}
