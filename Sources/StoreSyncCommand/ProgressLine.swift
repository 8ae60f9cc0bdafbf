import Foundation
import ThreadSupport

/// The line at the bottom of the terminal that shows progress, and that gives way to questions.
enum ProgressLine {
    private struct State {
        var isDrawn = false
        var isHeld = false
    }

    private static let state = Locked(State())

    /// Shows a line until something else is drawn; an empty one clears it.
    static func draw(_ line: String) {
        state.withLock { state in
            guard !state.isHeld else { return }
            write(line)
            state.isDrawn = !line.isEmpty
        }
    }

    /// Clears the line, and shows no other one until `body` has returned.
    static func hold<Result>(_ body: () throws -> Result) rethrows -> Result {
        state.withLock { state in
            if state.isDrawn { write("") }
            state = State(isDrawn: false, isHeld: true)
        }
        defer { state.withLock { $0.isHeld = false } }
        return try body()
    }

    /// The width of the terminal: of a line that is wrapped, only the last part would be cleared.
    private static var columns: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    private static func write(_ line: String) {
        // A terminal that Ctrl-S has stopped must not stop the command.
        var terminal = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
        guard poll(&terminal, 1, 0) == 1 else { return }
        Terminal.show("\r\u{1B}[K\(fitted(line, columns: columns))")
    }

    /// Shortens a line, which may contain names of files, so that a terminal of this width doesn't wrap it.
    static func fitted(_ line: String, columns: Int) -> String {
        var width = 0
        return String(
            line.withoutControls.prefix { character in
                width += character.maximumColumns
                return width < columns
            }
        )
    }
}

extension Character {
    /// How many columns a terminal may need for it, also if it draws the parts one after the other.
    fileprivate var maximumColumns: Int { unicodeScalars.reduce(0) { $0 + $1.maximumColumns } }
}

extension Unicode.Scalar {
    /// Two for Chinese, Japanese and Korean, for symbols and for emoji; none for marks on another scalar.
    fileprivate var maximumColumns: Int {
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: break
        }
        // Vowels and final consonants of Korean syllables, which the names of files on Apple systems have apart.
        guard !(0x1160...0x11FF).contains(value) else { return 0 }
        let isPunctuationOrBlock = (0x2000...0x206F).contains(value) || (0x2500...0x259F).contains(value)
        return value >= 0x1100 && !isPunctuationOrBlock ? 2 : 1
    }
}
