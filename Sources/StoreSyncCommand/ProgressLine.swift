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
        let line = line.prefix(columns - 1)
        // The terminal may be closed while the command continues.
        try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(line)".utf8))
    }
}
