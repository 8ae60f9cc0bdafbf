import Foundation

extension Data {
    /// Reads the first bytes of a file that a user names, which may be a pipe; `nil` if it can't be read.
    ///
    /// - Parameters:
    ///   - path: The path.
    ///   - count: The maximum number of bytes, since a device may never end.
    /// - Throws: `CancellationError` if the command is interrupted while it waits for the program at the pipe's other end.
    init?(ofFile path: String, upTo count: Int) throws {
        // Opening a pipe that no program writes to would wait where no signal ends it.
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        self.init()
        var part = [UInt8](repeating: 0, count: Swift.min(count, 1 << 16))
        while self.count < count {
            try Terminal.wait(for: descriptor, POLLIN)
            let length = read(descriptor, &part, Swift.min(part.count, count - self.count))
            if length == 0 { return }
            if length > 0 { append(contentsOf: part[..<length]) } else if errno != EINTR, errno != EAGAIN { return nil }
        }
    }
}
