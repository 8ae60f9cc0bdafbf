import Foundation
import Operations

/// Shows an operation's progress on a terminal's standard error: phase, bytes, rate and the time left.
struct ProgressBar: Sendable {
    private let isShown: Bool
    /// In columns: the usual longest line fits in a terminal of 80.
    private static let width = 12

    init(_ options: OutputOptions) {
        // A dumb terminal, such as an editor's shell, can't clear a line.
        let isDumb = Environment.bytes(of: "TERM") == Data("dumb".utf8)
        isShown = !options.quiet && isatty(STDERR_FILENO) == 1 && !isDumb
    }

    /// Draws until the operation has ended, and leaves an empty line.
    func follow(_ events: AsyncStream<OperationEvent>) async {
        guard isShown else { return }
        let clock = ContinuousClock()
        var rate = TransferRate()
        var lastDrawn: ContinuousClock.Instant?
        for await event in events {
            guard case .progress(let progress) = event else { continue }
            let now = clock.now
            let bytesPerSecond = rate.bytesPerSecond(progress, at: now)
            if let lastDrawn, now - lastDrawn < .milliseconds(50) { continue }
            lastDrawn = now
            ProgressLine.draw(Self.line(progress, rate: bytesPerSecond))
        }
        ProgressLine.draw("")
    }

    /// Shows a line until something else is drawn; an empty one clears it.
    func show(_ line: String) {
        if isShown { ProgressLine.draw(line) }
    }

    /// The line for a report, with the bytes per second if they are known.
    static func line(_ progress: OperationProgress, rate: Double?) -> String {
        let filled = Int((progress.fractionCompleted * Double(width)).rounded(.down))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
        var parts = [bar, "\(Int(progress.fractionCompleted * 100)) %"]
        if let phase = progress.phase, !phase.isEmpty { parts.insert(phase, at: 0) }
        if let done = progress.completedUnitCount, let total = progress.totalUnitCount, total > 0 {
            parts.append("\(done.byteCount) of \(total.byteCount)")
            if let rate {
                parts.append("\(Int64(rate).byteCount)/s")
                // A slow server that claims huge sizes would take longer than a number can say.
                parts.append("\(Int(min(Double(total - done) / rate, 1e9).rounded(.up))) s left")
            }
        }
        return parts.joined(separator: "  ")
    }
}

extension Int64 {
    /// A number of bytes, for people: "20.1 MB".
    var byteCount: String { formatted(.byteCount(style: .file, spellsOutZero: false)) }
}
