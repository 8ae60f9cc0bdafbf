public import ArgumentParser
import Foundation
public import Workloads

/// Measures Operations against Foundation's OperationQueue and against task groups, and prints the table.
@main
struct Compare: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prints how Operations compares with OperationQueue and with task groups.",
        discussion: """
            Each measurement runs in its own process. The contenders take turns, and the medians over the processes \
            count. Exits with 1 if a target is missed.
            """,
        subcommands: [Table.self, Once.self],
        defaultSubcommand: Table.self
    )
}

/// Prints the table.
struct Table: AsyncParsableCommand {
    @Option(help: "The number of processes for each contender and measurement.")
    var processes = 7

    @Option(help: "Print only the sections whose title contains this text.")
    var section = ""

    @Flag(help: "Run a hundredth of the counts in one process each, to check that everything works.")
    var smoke = false

    func run() async throws {
        let runner = try ProcessRunner(processes: smoke ? 1 : processes, divisor: smoke ? 100 : 1)
        var missed = 0
        for section in Section.all {
            guard self.section.isEmpty || section.title.localizedCaseInsensitiveContains(self.section) else { continue }
            print("\n\(section.title)\n")
            let lines = try section.lines(runner)
            Line.print(lines)
            missed += lines.count { $0.isMet == false && (!smoke || $0.isMatterOfCorrectness) }
        }
        print(missed == 0 ? "\nEvery target is met." : "\n\(missed) targets are missed.")
        if missed > 0 { throw ExitCode.failure }
    }
}

/// Runs one workload by one contender in this process.
struct Once: AsyncParsableCommand {
    @Argument var workload: Workload
    @Argument var contender: Contender
    @Argument var count: Int

    @Option(help: "The number of runs, of which the mean counts.")
    var rounds = 1

    func run() async throws {
        // Warms up, so that the extra cost of a process's first operations isn't measured.
        if workload.isTimed { _ = try await Workloads.run(workload, by: contender, count: min(count, 1_000)) }
        var seconds = 0.0
        var values: [String: Double] = [:]
        for _ in 0..<rounds {
            guard let measurement = try await Workloads.run(workload, by: contender, count: count) else {
                throw ValidationError("\(contender) can't do \(workload)")
            }
            seconds += measurement.seconds / Double(rounds)
            values.merge(measurement.values, uniquingKeysWith: max)
        }
        values["seconds"] = seconds
        for (name, value) in values { print("\(name) \(value)") }
    }
}

extension Workload: ExpressibleByArgument {}
extension Contender: ExpressibleByArgument {}

extension Workload {
    fileprivate var isTimed: Bool { self != .memory && self != .memoryOfChain }
}
