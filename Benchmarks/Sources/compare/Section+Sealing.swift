import Foundation
import Workloads

extension Section {
    static let sealing = Section(
        title:
            "Sealing: MiB per second, and how many times faster a worker for each core is (MiB of noise, uncompressed)"
    ) { runner in
        let mebibytes = 256
        var lines = [
            Line(cells: [
                "what", "MiB", "each core", "one worker", "cipher", "cipher + digest", "÷ one worker", "÷ cipher",
                "÷ cipher + digest", "target", "met",
            ])
        ]
        for workload in [Workload.seal, .open] {
            let outcomes = try runner.medians(workload.contenders.map { (workload, $0, mebibytes, 1) })
            let count = Double(max(10, mebibytes / runner.divisor))
            let rates = outcomes.map { outcome in outcome.seconds.map { count / $0 } }
            let ratios = rates.dropFirst().map { other in
                rates[0].flatMap { own in other.map { own / $0 } }
            }
            let rateCells = rates.map { $0.map { String(format: "%.0f", $0) } ?? "failed" }
            let missing = Array(repeating: "–", count: 4 - rates.count)
            lines.append(
                Line(
                    cells: [workload.rawValue, grouped(Int(count))] + rateCells + missing + ratios.map(times) + missing
                        + [""]
                )
            )
        }
        return lines
    }
}
