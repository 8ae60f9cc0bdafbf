import Foundation
import ThreadSupport

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A loopback socket that is closed when its last reference is released.
package final class LoopbackSocket: Sendable {
    let descriptor: Int32

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Returns a socket that accepts connections on a port; 0 chooses a free port.
    static func listening(on port: Int = 0) throws -> LoopbackSocket {
        let socket = try LoopbackSocket.make()
        var address = loopback(port)
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket.descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0, listen(socket.descriptor, 64) == 0 else { throw POSIXError(.EADDRINUSE) }
        return socket
    }

    /// Returns a connection to a port; `nil` if no server listens there.
    static func connected(to port: Int) throws -> LoopbackSocket? {
        let socket = try LoopbackSocket.make()
        var address = loopback(port)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket.descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        return result == 0 ? socket : nil
    }

    private static func make() throws -> LoopbackSocket {
        #if canImport(Darwin)
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #else
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        #endif
        guard descriptor >= 0 else { throw POSIXError(.EMFILE) }
        return LoopbackSocket(descriptor)
    }

    private static func loopback(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    deinit {
        close(descriptor)
    }

    /// Limits what the system receives before it's read.
    func limitReceiveBuffer(to bytes: Int32) {
        var bytes = bytes
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
    }

    var port: Int {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return Int(in_port_t(bigEndian: address.sin_port))
    }

    func accept() -> LoopbackSocket? {
        #if canImport(Darwin)
        let connection = Darwin.accept(descriptor, nil, nil)
        #else
        let connection = Glibc.accept(descriptor, nil, nil)
        #endif
        return connection >= 0 ? LoopbackSocket(connection) : nil
    }

    /// Reads some bytes; returns none at the end.
    func read(upTo count: Int = 1 << 16) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            initialized = max(0, recv(descriptor, buffer.baseAddress, count, 0))
        }
    }

    /// Sends bytes, and returns whether all were sent.
    @discardableResult
    func send(_ bytes: some Collection<UInt8>) -> Bool {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { buffer in
                #if canImport(Darwin)
                Darwin.send(descriptor, buffer.baseAddress, buffer.count, 0)
                #else
                Glibc.send(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
                #endif
            }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Returns the status of a server's answer to a request without a body; `nil` if the server doesn't answer.
    package static func status(_ method: String, _ target: String, port: Int) -> Int? {
        exchange(method, target, port: port)?.split(separator: " ").dropFirst().first.flatMap { Int($0) }
    }

    /// Sends a request without a body, and returns the head of the answer; `nil` if there is no answer.
    package static func exchange(
        _ method: String,
        _ target: String,
        _ headers: [String] = [],
        port: Int
    ) -> String? {
        guard let socket = try? connected(to: port) else { return nil }
        let lines =
            [
                "\(method) \(target) HTTP/1.1", "Host: localhost:\(port)", "Content-Length: 0", "Connection: close",
            ] + headers
        socket.send(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8))
        var answer: [UInt8] = []
        while true {
            if let end = answer.firstRange(of: Array("\r\n\r\n".utf8)) {
                return String(decoding: answer[..<end.lowerBound], as: UTF8.self)
            }
            let more = socket.read()
            guard !more.isEmpty else { return nil }
            answer += more
        }
    }

    /// Ends both directions, which wakes the threads that wait on this socket.
    func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }
}

/// The ports that this process has already chosen.
private let chosenPorts = Locked<Set<Int>>([])

/// Returns a port on which no server listens now.
///
/// A server binds it later. Until then, the system gives it to no connection, because those have ports from 32,768 on, and
/// no other call in this process returns it.
package func freePort() throws -> Int {
    for _ in 0..<1000 {
        let port = Int.random(in: 10_000..<32_768)
        let isNew = chosenPorts.withLock { $0.insert(port).inserted }
        if isNew, (try? LoopbackSocket.listening(on: port)) != nil { return port }
    }
    throw POSIXError(.EADDRINUSE)
}

package func isListening(_ port: Int) -> Bool { ((try? LoopbackSocket.connected(to: port)) ?? nil) != nil }
