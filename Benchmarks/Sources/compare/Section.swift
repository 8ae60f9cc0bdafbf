import Foundation
import Workloads

/// A part of the table.
struct Section: Sendable {
    var title: String
    var lines: @Sendable (ProcessRunner) throws -> [Line]

    static let all = [rates, flatness, longChains, memory, submission, cancellation, sealing]
}

// MARK: - Rates

extension Section {
    private struct Race {
        var workload: Workload
        var count: Int
        /// The target ratio to OperationQueue's rate.
        var queueTarget: Double?
        /// The target ratio to the rate of the faster group.
        var groupTarget: Double?
    }

    private static let races = [
        Race(workload: .independent, count: 100_000, queueTarget: 3.5, groupTarget: 1.2),
        Race(workload: .chain, count: 10_000, queueTarget: 100),
        Race(workload: .chain, count: 100_000),
        Race(workload: .layered, count: 30_000, queueTarget: 2),
        Race(workload: .fanIn, count: 10_000),
        Race(workload: .priorities, count: 100_000),
        Race(workload: .cancelAll, count: 100_000, queueTarget: 3),
    ]

    static let rates = Section(title: "Rates: milliseconds, and how many times faster Operations is") { runner in
        [
            Line(cells: [
                "workload", "count", "Operations", "OperationQueue", "group, one actor", "group, actor each", "÷ queue",
                "÷ group", "target", "met",
            ])
        ] + (try races.map { try line($0, runner) })
    }

    private static func line(_ race: Race, _ runner: ProcessRunner) throws -> Line {
        let contenders = race.workload.contenders
        let outcomes = try runner.medians(contenders.map { (race.workload, $0, race.count, 1) })
        let byContender = Dictionary(uniqueKeysWithValues: zip(contenders, outcomes))
        let own = byContender[.operations]?.seconds
        let queue = ratio(byContender[.operationQueue]?.seconds, own)
        let fastestGroup = [Contender.taskGroup, .taskGroupOfActors].compactMap { byContender[$0]?.seconds }.min()
        let group = ratio(fastestGroup, own)
        var targets: [String] = []
        var isMet: Bool?
        if let target = race.queueTarget {
            targets.append("queue ≥ \(times(target))")
            isMet = (queue ?? 0) >= target
        }
        if let target = race.groupTarget {
            targets.append("group ≥ \(times(target))")
            isMet = isMet != false && (group ?? 0) >= target
        }
        let cells = Workload.independent.contenders.map { byContender[$0]?.milliseconds ?? "–" }
        return Line(
            cells: [race.workload.rawValue, grouped(race.count)] + cells
                + [times(queue), times(group), targets.joined(separator: ", ")],
            isMet: isMet
        )
    }

    private static func ratio(_ other: Double?, _ own: Double?) -> Double? {
        guard let other, let own, own > 0 else { return nil }
        return other / own
    }
}

// MARK: - Operations alone

extension Section {
    static let flatness = Section(title: "Cost per operation: nanoseconds, by how many there are") { runner in
        let counts = [10_000, 100_000, 1_000_000]
        var lines = [Line(cells: ["workload"] + counts.map(grouped) + ["largest ÷ smallest", "target", "met"])]
        // The entries of a million children don't fit into the processor's cache.
        let targets: [(Workload, Double)] = [(.independent, 1.5), (.chain, 1.5), (.children, 3)]
        for (workload, target) in targets {
            let outcomes = try runner.medians(counts.map { (workload, .operations, $0, max(1, 200_000 / $0)) })
            let costs = zip(outcomes, counts).map { ($0.seconds ?? .infinity) * 1e9 / Double($1 / runner.divisor) }
            let spread = (costs.max() ?? 0) / (costs.min() ?? 1)
            lines.append(
                Line(
                    cells: [workload.rawValue] + costs.map { String(format: "%.0f", $0) }
                        + [times(spread), "≤ \(times(target))"],
                    isMet: spread <= target
                )
            )
        }
        return lines
    }

    static let longChains = Section(title: "Long chains that end early, each operation holding the former handle") {
        runner in
        var lines = [Line(cells: ["what", "count", "milliseconds", "operations left", "target", "met"])]
        let workloads: [(Workload, String)] = [
            (.chainDropped, "dropped while waiting"), (.chainFailed, "fails at its head"),
        ]
        for (workload, title) in workloads {
            let outcome = try runner.medians([(workload, .operations, 1_000_000, 1)])[0]
            let left = outcome["left"]
            lines.append(
                Line(
                    cells: [
                        title, grouped(1_000_000 / runner.divisor), outcome.milliseconds,
                        left.map { grouped(Int($0)) } ?? "–", "ends, 0 left",
                    ],
                    isMet: left == 0 && (outcome["wrong"] ?? 0) == 0,
                    isMatterOfCorrectness: true
                )
            )
        }
        return lines
    }

    static let memory = Section(title: "Bytes per waiting no-op operation, with its actor and its handle") { runner in
        var lines = [Line(cells: ["what", "count", "Operations", "OperationQueue", "target", "met"])]
        let rows: [(Workload, String, Int, Double?)] = [
            (.memory, "depends on nothing", 100_000, 320), (.memory, "depends on nothing", 1_000_000, 320),
            (.memoryOfChain, "depends on the one before", 100_000, nil),
        ]
        for (workload, title, count, target) in rows {
            // OperationQueue overflows its stack when it frees such a chain.
            let contenders: [Contender] = workload == .memory ? [.operations, .operationQueue] : [.operations]
            let outcomes = try runner.medians(contenders.map { (workload, $0, count, 1) })
            let bytes = outcomes.map { $0["bytes"].map { String(format: "%.0f", $0) } ?? $0.milliseconds }
            lines.append(
                Line(
                    cells: [title, grouped(count), bytes[0], bytes.count > 1 ? bytes[1] : "–"]
                        + [target.map { "≤ \(Int($0))" } ?? ""],
                    isMet: target.map { (outcomes[0]["bytes"] ?? .infinity) <= $0 }
                )
            )
        }
        return lines
    }

    static let submission = Section(
        title: "100,000 operations added from several tasks or threads while a quarter is cancelled: milliseconds"
    ) { runner in
        var lines = [
            Line(cells: [
                "who", "one task", "64 tasks", "8 threads", "slowest ÷ one task", "lost or twice", "target", "met",
            ])
        ]
        let workloads: [Workload] = [.submitFromOneTask, .submitFromTasks, .submitFromThreads]
        for contender in [Contender.operations, .operationQueue] {
            let outcomes = try runner.medians(workloads.map { ($0, contender, 100_000, 1) })
            let seconds = outcomes.map { $0.seconds ?? .infinity }
            let slowest = max(seconds[1], seconds[2]) / seconds[0]
            let wrong = outcomes.compactMap { $0["wrong"] }.reduce(0, +)
            let isOurs = contender == .operations
            lines.append(
                Line(
                    cells: [contender.rawValue] + outcomes.map(\.milliseconds)
                        + [times(slowest), grouped(Int(wrong)), isOurs ? "≤ 2.00×, 0" : ""],
                    isMet: isOurs ? slowest <= 2 && wrong == 0 : nil
                )
            )
        }
        return lines
    }

    static let cancellation = Section(title: "Operations that see a cancellation that isn't theirs") { runner in
        let outcome = try runner.medians([(.falseCancellations, .operations, 1_000_000, 1)])[0]
        let wrong = outcome["wrong"]
        return [
            Line(cells: [
                "not cancelled", "cancelled beside them while running", "milliseconds", "saw one", "target", "met",
            ]),
            Line(
                cells: [
                    grouped(1_000_000 / runner.divisor),
                    outcome["cancelledWhileRunning"].map { grouped(Int($0)) } ?? "–",
                    outcome.milliseconds, wrong.map { grouped(Int($0)) } ?? "–", "0",
                ],
                isMet: wrong == 0,
                isMatterOfCorrectness: true
            ),
        ]
    }
}
