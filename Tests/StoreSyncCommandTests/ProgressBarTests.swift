import Foundation
import Operations
import Testing

@testable import StoreSyncCommand

@Suite("The progress bar")
struct ProgressBarTests {
    private static func bytes(_ done: Int64, of total: Int64, _ phase: String = "uploading") -> OperationProgress {
        OperationProgress(completedUnitCount: done, totalUnitCount: total, phase: phase)
    }

    @Test("The rate counts neither the time of a question nor that of reading, and starts over in each phase")
    func rate() {
        let start = ContinuousClock.now
        var rate = TransferRate()
        func after(_ seconds: Int, _ progress: OperationProgress) -> Double? {
            rate.bytesPerSecond(progress, at: start + .seconds(seconds))
        }
        #expect(after(0, OperationProgress(fractionCompleted: 0)) == nil)
        #expect(after(60, OperationProgress(fractionCompleted: 0, phase: "reading")) == nil)
        #expect(after(100, Self.bytes(0, of: 1000)) == nil)
        #expect(after(102, Self.bytes(400, of: 1000)) == 200)
        #expect(after(104, Self.bytes(1000, of: 1000)) == 250)
        #expect(after(110, Self.bytes(500, of: 1000, "downloading")) == nil)
        #expect(after(115, Self.bytes(600, of: 1000, "downloading")) == 20)
    }

    @Test("The line shows the time left on a terminal of 80 columns, with long numbers and a long phase, too")
    func width() {
        let progress = Self.bytes(99_990_000_000, of: 999_990_000_000, "downloading")
        let line = ProgressBar.line(progress, rate: 123_400_000)
        #expect(line.hasSuffix(" s left"), "\(line)")
        #expect(ProgressLine.fitted(line, columns: 80) == line)
    }

    @Test("The time left has a limit, whatever a server claims and however slow it is")
    func endlessTransfer() {
        #expect(ProgressBar.line(Self.bytes(1, of: 1 << 60), rate: 0.01).hasSuffix("1000000000 s left"))
    }

    @Test("The line begins with the bar if there is no phase", arguments: [nil, ""])
    func noPhase(phase: String?) {
        let line = ProgressBar.line(OperationProgress(fractionCompleted: 1, phase: phase), rate: nil)
        #expect(line.hasPrefix("█"), "\(line)")
    }
}
