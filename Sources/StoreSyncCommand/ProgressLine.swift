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
        // The terminal may be closed while the command continues.
        try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(fitted(line, columns: columns))".utf8))
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
    /// How many columns a terminal may need for it: two for Chinese, Japanese and Korean, for symbols and for emoji.
    fileprivate var maximumColumns: Int {
        let isWide = unicodeScalars.contains { scalar in
            let isPunctuationOrBlock =
                (0x2000...0x206F).contains(scalar.value) || (0x2500...0x259F).contains(scalar.value)
            return scalar.value >= 0x1100 && !isPunctuationOrBlock
        }
        return isWide ? 2 : 1
    }
}
