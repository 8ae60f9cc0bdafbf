import Foundation
import Workloads

/// The result of one process, or the median of several.
enum Outcome {
    case measured([String: Double])
    case died(signal: Int32)
    case tookTooLong

    subscript(name: String) -> Double? {
        guard case .measured(let values) = self else { return nil }
        return values[name]
    }

    var seconds: Double? { self["seconds"] }
}

/// Runs this executable again, once for every contender and measurement.
struct ProcessRunner {
    /// The number of processes of a contender.
    let processes: Int
    /// The number that counts are divided by.
    let divisor: Int

    /// The seconds after which a process is terminated.
    static let patience = 60
    private let executable: URL

    init(processes: Int, divisor: Int) throws {
        self.processes = processes
        self.divisor = divisor
        guard let executable = Bundle.main.executableURL else { throw CocoaError(.executableNotLoadable) }
        self.executable = executable
    }

    /// Returns the medians over all processes, in which the contenders take turns.
    ///
    /// A contender that crashes or takes too long isn't run again.
    func medians(_ tasks: [(workload: Workload, contender: Contender, count: Int, rounds: Int)]) throws -> [Outcome] {
        var outcomes: [[Outcome]] = tasks.map { _ in [] }
        for _ in 0..<processes {
            for (index, task) in tasks.enumerated() {
                if let last = outcomes[index].last, last.seconds == nil { continue }
                outcomes[index].append(try once(task.workload, task.contender, task.count, task.rounds))
            }
        }
        return outcomes.map(Self.median)
    }

    private func once(_ workload: Workload, _ contender: Contender, _ count: Int, _ rounds: Int) throws -> Outcome {
        let process = Process()
        process.executableURL = executable
        process.arguments = [
            "once", workload.rawValue, contender.rawValue, "\(max(10, count / divisor))", "--rounds", "\(rounds)",
        ]
        // The backtrace of a stack overflow takes minutes to print.
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let watchdog = DispatchWorkItem { process.terminate() }
        DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(Self.patience), execute: watchdog)
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        watchdog.cancel()
        if process.terminationReason == .uncaughtSignal {
            return process.terminationStatus == SIGTERM ? .tookTooLong : .died(signal: process.terminationStatus)
        }
        return .measured(Self.values(String(decoding: data, as: UTF8.self)))
    }

    private static func values(_ text: String) -> [String: Double] {
        var values: [String: Double] = [:]
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 2 { values[String(words[0])] = Double(words[1]) }
        }
        return values
    }

    /// The median of each value; for faults, the maximum of all processes.
    private static func median(_ outcomes: [Outcome]) -> Outcome {
        var all: [String: [Double]] = [:]
        for outcome in outcomes {
            guard case .measured(let values) = outcome else { return outcome }
            for (name, value) in values { all[name, default: []].append(value) }
        }
        return .measured(
            all.reduce(into: [:]) { medians, entry in
                let sorted = entry.value.sorted()
                let isFault = entry.key == "wrong" || entry.key == "left"
                medians[entry.key] = isFault ? sorted.last : sorted[sorted.count / 2]
            }
        )
    }
}
