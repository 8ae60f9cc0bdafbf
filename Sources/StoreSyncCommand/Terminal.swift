import Foundation
import ThreadSupport

/// The person in front of the terminal, if there is one.
enum Terminal {
    /// Whether somebody can be asked.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    // Written to when the command is interrupted, so that a question ends that nobody answers.
    private static let wakeUp: (read: Int32, write: Int32) = {
        var descriptors: [Int32] = [-1, -1]
        _ = pipe(&descriptors)
        return (descriptors[0], descriptors[1])
    }()

    /// Ends a question that is being asked.
    static func interrupt() {
        _ = write(wakeUp.write, [0], 1)
    }

    /// Asks a question that is answered by yes or no.
    ///
    /// - Throws: `CancellationError` when the command is interrupted or the input ends.
    static func confirm(_ question: String) async throws -> Bool {
        try await runBlocking {
            while true {
                FileHandle.standardError.write(Data("\(question) [y/n] ".utf8))
                switch try readLine().lowercased() {
                case "y", "yes": return true
                case "n", "no": return false
                default: continue
                }
            }
        }
    }

    private static func readLine() throws -> String {
        var line: [UInt8] = []
        while true {
            var waiting = [
                pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeUp.read, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&waiting, 2, -1) > 0 || errno == EINTR else { throw CancellationError() }
            guard waiting[1].revents == 0 else { throw CancellationError() }
            guard waiting[0].revents != 0 else { continue }
            var byte: UInt8 = 0
            guard read(STDIN_FILENO, &byte, 1) == 1 else { throw CancellationError() }
            if byte == UInt8(ascii: "\n") {
                return String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespaces)
            }
            line.append(byte)
        }
    }
}
