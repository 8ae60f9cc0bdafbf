import Foundation
import Operations

/// Shows an operation's progress on a terminal's standard error: phase, bytes, rate and the time left.
struct ProgressBar: Sendable {
    private let isShown: Bool
    /// So that the time left fits into a line of 80 columns.
    private static let width = 14

    init(_ options: OutputOptions) {
        isShown = !options.quiet && isatty(STDERR_FILENO) == 1
    }

    /// The phase whose rate is shown: what was before it, such as typing a password, says nothing of how long it takes.
    private struct MeasuredPhase {
        let phase: String?
        /// The bytes that were done when it began.
        let former: Int64
        let start: ContinuousClock.Instant
    }

    /// Draws until the operation has ended, and leaves an empty line.
    func follow(_ events: AsyncStream<OperationEvent>) async {
        guard isShown else { return }
        let clock = ContinuousClock()
        var (measured, lastDrawn): (MeasuredPhase?, ContinuousClock.Instant?)
        for await event in events {
            guard case .progress(let progress) = event else { continue }
            let now = clock.now
            if let done = progress.completedUnitCount, measured == nil || measured?.phase != progress.phase {
                measured = MeasuredPhase(phase: progress.phase, former: done, start: now)
            }
            if let lastDrawn, now - lastDrawn < .milliseconds(50) { continue }
            lastDrawn = now
            draw(
                Self.line(
                    progress,
                    since: measured?.former ?? 0,
                    seconds: (now - (measured?.start ?? now)) / .seconds(1)
                )
            )
        }
        draw("")
    }

    /// Shows a line until something else is drawn; an empty one clears it.
    func show(_ line: String) {
        if isShown { draw(line) }
    }

    private func draw(_ line: String) {
        ProgressLine.draw(line)
    }

    /// - Parameters:
    ///   - progress: The progress.
    ///   - former: The bytes that were done before the phase.
    ///   - seconds: How long the phase has taken.
    static func line(_ progress: OperationProgress, since former: Int64 = 0, seconds: Double) -> String {
        let filled = Int((progress.fractionCompleted * Double(width)).rounded(.down))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
        var parts = [progress.phase, bar, "\(Int(progress.fractionCompleted * 100)) %"].compactMap(\.self)
        if let done = progress.completedUnitCount, let total = progress.totalUnitCount, total > 0 {
            parts.append("\(done.byteCount) of \(total.byteCount)")
            if seconds > 0.5, done > former {
                let rate = Double(done - former) / seconds
                parts.append("\(Int64(rate).byteCount)/s")
                parts.append("\(Int((Double(total - done) / rate).rounded(.up))) s left")
            }
        }
        return parts.joined(separator: "  ")
    }
}

extension Int64 {
    /// A number of bytes, for people: "20.1 MB".
    var byteCount: String { formatted(.byteCount(style: .file, spellsOutZero: false)) }
}
