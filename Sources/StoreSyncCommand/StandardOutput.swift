import ArgumentParser
import Foundation
import ThreadSupport

/// The command's standard output, whose errors don't go unnoticed.
enum StandardOutput {
    /// Makes sure that standard input, output and error are open, and that a closed pipe is an error of the write.
    ///
    /// A file that the command opens would otherwise get the number of a closed one: what is printed would go into that
    /// file. A closed pipe would end the process before it has cleaned up.
    static func prepare() {
        // Opened the wrong way round for input and output, so that their use fails as it would if they were closed.
        for (descriptor, mode) in [(STDIN_FILENO, O_WRONLY), (STDOUT_FILENO, O_RDONLY), (STDERR_FILENO, O_WRONLY)]
        where fcntl(descriptor, F_GETFD) == -1 {
            // The lowest number that is free is this one.
            _ = open("/dev/null", mode)
        }
        signal(SIGPIPE, SIG_IGN)
    }

    private static let cut = Locked(false)

    /// Whether a line was written only in part, so that nothing else could be read after it.
    static var isCut: Bool { cut.withLock(\.self) }

    /// Writes lines at once, or when the reader of a full pipe continues.
    ///
    /// - Throws: ``OutputError``; `ExitCode` if the reader has closed the pipe, which says by that that it needs no more;
    ///   `CancellationError` if the command is interrupted while it waits for the reader.
    static func write(_ lines: [String]) throws {
        let bytes = Array(lines.map { $0 + "\n" }.joined().utf8)
        var count = 0
        defer { if 0 < count, count < bytes.count { cut.withLock { $0 = true } } }
        try write(bytes, to: STDOUT_FILENO) { count += $0 }
    }

    /// Writes bytes to a descriptor as ``write(_:)`` does; `onPart` gets the number of bytes of each part that was written.
    static func write(_ bytes: [UInt8], to descriptor: Int32, onPart: (Int) -> Void = { _ in }) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            try Terminal.wait(for: descriptor, POLLOUT)
            // A pipe that is ready takes so many bytes without blocking.
            let part = rest.prefix(Int(PIPE_BUF))
            let count = part.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
                onPart(count)
            } else if errno == EPIPE {
                throw ExitCode(128 + SIGPIPE)
            } else if errno != EINTR, errno != EAGAIN {
                throw OutputError(reason: String(cString: strerror(errno)))
            }
        }
    }
}

/// Standard output that can't be written.
struct OutputError: Error {
    /// Why, in the system's words.
    let reason: String

    /// What happened, and what to do about it.
    var message: String {
        """
        What the command reports can't be written to standard output: \(reason). What it did before stays done. Redirect the \
        output to a file or a terminal that can be written.
        """
    }
}
