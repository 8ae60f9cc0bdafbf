import Foundation
import SyncCryptography
import ThreadSupport

/// Asks the user at the terminal, if there is one.
enum Terminal {
    /// Whether the user can be asked.
    static var isInteractive: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    // The command writes to this pipe when it is interrupted, so that neither a question nor output waits forever.
    private static let wakeUp: (read: Int32, write: Int32) = {
        var descriptors: [Int32] = [-1, -1]
        _ = pipe(&descriptors)
        return (descriptors[0], descriptors[1])
    }()

    /// Ends a question that is waiting for an answer, and the wait of output that isn't read.
    static func interrupt() {
        _ = write(wakeUp.write, [0], 1)
    }

    /// Waits until a descriptor can be read or written, or is closed at its other end.
    ///
    /// - Parameters:
    ///   - descriptor: The descriptor.
    ///   - event: `POLLIN` or `POLLOUT`.
    /// - Throws: `CancellationError` if the command is interrupted before that. Output that can be written at once still is.
    static func wait(for descriptor: Int32, _ event: Int32) throws {
        var waiting = [
            pollfd(fd: descriptor, events: Int16(event), revents: 0),
            pollfd(fd: wakeUp.read, events: Int16(POLLIN), revents: 0),
        ]
        while poll(&waiting, 2, -1) < 0 { guard errno == EINTR else { throw CancellationError() } }
        // An answer that was typed ahead isn't for a question that comes after the interruption.
        let isRefused = event == POLLIN && waiting[1].revents != 0
        guard waiting[0].revents != 0, !isRefused else { throw CancellationError() }
    }

    private static let lacksAnswer = Locked(false)

    /// Whether a question waits for its answer, or has ended without one.
    static var isUnanswered: Bool { lacksAnswer.withLock { $0 } }

    /// Asks on a thread that may wait, and keeps the progress away meanwhile.
    private static func ask<Answer: Sendable>(_ body: @escaping @Sendable () throws -> Answer) async throws -> Answer {
        try await runBlocking {
            try ProgressLine.hold {
                lacksAnswer.withLock { $0 = true }
                do {
                    let answer = try body()
                    lacksAnswer.withLock { $0 = false }
                    return answer
                } catch {
                    // No answer has ended the question's line.
                    show("\n")
                    throw error
                }
            }
        }
    }

    /// Writes a text to standard error.
    ///
    /// Failures are ignored: the terminal may be closed while the command continues, or stopped while it's interrupted.
    static func show(_ text: String) {
        try? StandardOutput.write(Array(text.utf8), to: STDERR_FILENO)
    }

    /// Asks a yes-or-no question.
    ///
    /// - Throws: `CancellationError` when the command is interrupted or the input ends.
    static func confirm(_ question: String) async throws -> Bool {
        try await ask {
            while true {
                show("\(question) [y/n] ")
                switch try readLine().lowercased() {
                case "y", "yes": return true
                case "n", "no": return false
                default: continue
                }
            }
        }
    }

    /// Asks for a line of text.
    ///
    /// - Throws: `CancellationError` when the command is interrupted or the input ends.
    static func line(_ prompt: String) async throws -> String {
        try await ask {
            show("\(prompt): ")
            return try readLine()
        }
    }

    /// Asks for a password without echo.
    ///
    /// Input typed before the prompt was visible, so it's discarded.
    ///
    /// - Throws: `CancellationError` when the command is interrupted or the input ends.
    static func password(_ prompt: String) async throws -> Password {
        try await ask {
            while true {
                let line = try withoutEcho {
                    show("\(prompt): ")
                    return try readBytes()
                }
                show("\n")
                do {
                    return try Password(utf8: line)
                } catch let error as CryptographyError {
                    show("\(error.message)\n")
                }
            }
        }
    }

    /// Asks for a new password twice, until both entries are the same.
    static func newPassword(_ prompt: String) async throws -> Password {
        while true {
            let first = try await password(prompt)
            if try await password("The same again") == first { return first }
            show("These were two different passwords. Try again.\n")
        }
    }

    /// Runs `body` without echo on the terminal; discards input typed before and input left over.
    private static func withoutEcho<Result>(_ body: () throws -> Result) throws -> Result {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return try body() }
        // A command that Ctrl-Z stops or Ctrl-\ ends would leave the shell without echo. After `fg`, a shell may have switched
        // the echo on, and the password would be shown.
        let actions = [SIGTSTP, SIGQUIT].map { ($0, signal($0, SIG_IGN)) }
        defer { for (number, action) in actions { signal(number, action) } }
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
            try wait(for: STDIN_FILENO, POLLIN)
            var byte: UInt8 = 0
            guard read(STDIN_FILENO, &byte, 1) == 1 else { throw CancellationError() }
            if byte == UInt8(ascii: "\n") { return line }
            line.append(byte)
        }
    }
}
