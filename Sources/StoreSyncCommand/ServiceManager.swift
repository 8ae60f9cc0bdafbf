import Foundation

/// The service manager that has started this process, if there is one: systemd, by the protocol of `sd_notify(3)`.
struct ServiceManager: Sendable {
    private let socketPath: String?

    init(_ environment: [String: String] = ProcessInfo.processInfo.environment) {
        socketPath = environment["NOTIFY_SOCKET"].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Tells it this process's state, such as `READY=1`, and returns whether it was told, or there is none.
    @discardableResult
    func notify(_ state: String) -> Bool {
        #if os(Linux)
        guard let socketPath else { return true }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // The name of an abstract socket begins with a zero byte, for which the variable has an @.
        let name = socketPath.utf8.enumerated().map { $0 == 0 && $1 == UInt8(ascii: "@") ? 0 : $1 }
        let offset = MemoryLayout<sockaddr_un>.size - MemoryLayout.size(ofValue: address.sun_path)
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        // A service manager that doesn't read must not stop the command.
        var patience = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let sent = withUnsafeBytes(of: address) { address in
            address.withMemoryRebound(to: sockaddr.self) { address in
                sendto(
                    descriptor,
                    state,
                    state.utf8.count,
                    Int32(MSG_NOSIGNAL),
                    address.baseAddress,
                    socklen_t(offset + name.count)
                )
            }
        }
        return sent >= 0
        #else
        return true
        #endif
    }
}
