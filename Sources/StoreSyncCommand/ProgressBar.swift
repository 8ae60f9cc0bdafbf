import Foundation
import Operations

/// Shows an operation's progress on a terminal's standard error: phase, bytes, rate and the time left.
struct ProgressBar: Sendable {
    private let isShown: Bool
    private static let width = 24

    init(_ options: OutputOptions) {
        isShown = !options.quiet && isatty(STDERR_FILENO) == 1
    }

    /// Draws until the operation has ended, and leaves an empty line.
    func follow(_ events: AsyncStream<OperationEvent>) async {
        guard isShown else { return }
        let clock = ContinuousClock()
        let start = clock.now
        var lastDrawn: ContinuousClock.Instant?
        for await event in events {
            guard case .progress(let progress) = event else { continue }
            let now = clock.now
            if let lastDrawn, now - lastDrawn < .milliseconds(50) { continue }
            lastDrawn = now
            draw(Self.line(progress, seconds: (now - start) / .seconds(1)))
        }
        draw("")
    }

    private func draw(_ line: String) {
        FileHandle.standardError.write(Data("\r\u{1B}[K\(line)".utf8))
    }

    static func line(_ progress: OperationProgress, seconds: Double) -> String {
        let filled = Int((progress.fractionCompleted * Double(width)).rounded(.down))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
        var parts = [progress.phase ?? "", bar, "\(Int(progress.fractionCompleted * 100)) %"]
        if let done = progress.completedUnitCount, let total = progress.totalUnitCount, total > 0 {
            parts.append("\(ByteCount(done)) of \(ByteCount(total))")
            if seconds > 0.5, done > 0 {
                let rate = Double(done) / seconds
                parts.append("\(ByteCount(Int64(rate)))/s")
                parts.append("\(Int((Double(total - done) / rate).rounded(.up))) s left")
            }
        }
        return parts.joined(separator: "  ")
    }
}

/// A number of bytes, for people: "20.1 MB".
struct ByteCount: CustomStringConvertible {
    private let count: Int64

    init(_ count: Int64) {
        self.count = count
    }

    var description: String {
        let units = ["B", "kB", "MB", "GB", "TB"]
        var value = Double(count)
        var unit = 0
        while value >= 1000, unit < units.count - 1 {
            value /= 1000
            unit += 1
        }
        return unit == 0 ? "\(count) B" : String(format: "%.1f %@", value, units[unit])
    }
}
