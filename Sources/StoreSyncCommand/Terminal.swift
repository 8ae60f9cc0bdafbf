import Foundation
import SyncCryptography
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

    /// Asks for a password, which doesn't show.
    ///
    /// What was typed before it's asked for did show, so it's thrown away.
    ///
    /// - Throws: `CancellationError` when the command is interrupted or the input ends.
    static func password(_ prompt: String) async throws -> Password {
        try await runBlocking {
            while true {
                let line = try withoutEcho {
                    FileHandle.standardError.write(Data("\(prompt): ".utf8))
                    return try readBytes()
                }
                FileHandle.standardError.write(Data("\n".utf8))
                do {
                    return try Password(utf8: line)
                } catch let error as CryptographyError {
                    FileHandle.standardError.write(Data("\(error.message)\n".utf8))
                }
            }
        }
    }

    /// Asks twice for a password that is new.
    static func newPassword(_ prompt: String) async throws -> Password {
        while true {
            let first = try await password(prompt)
            if try await password("The same again") == first { return first }
            FileHandle.standardError.write(Data("These were two different ones. Once more.\n".utf8))
        }
    }

    /// Runs `body` while the terminal doesn't show what is typed; what was typed before or is left over is thrown away.
    private static func withoutEcho<Result>(_ body: () throws -> Result) throws -> Result {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return try body() }
        let former = settings
        settings.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings)
        defer {
            var former = former
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &former)
        }
        return try body()
    }

    private static func readLine() throws -> String {
        String(decoding: try readBytes(), as: UTF8.self).trimmingCharacters(in: .whitespaces)
    }

    private static func readBytes() throws -> [UInt8] {
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
            if byte == UInt8(ascii: "\n") { return line }
            line.append(byte)
        }
    }
}
