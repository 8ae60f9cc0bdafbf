import Benchmark
import Workloads

let benchmarks: @Sendable () -> Void = {
    let sizes: [(Workload, Int)] = [
        (.independent, 10_000), (.chain, 10_000), (.layered, 30_000), (.fanIn, 10_000), (.priorities, 10_000),
        (.cancelAll, 10_000), (.submitFromOneTask, 10_000), (.submitFromTasks, 10_000), (.submitFromThreads, 10_000),
    ]
    for (workload, count) in sizes {
        for contender in workload.contenders {
            Benchmark(
                "\(workload.rawValue) of \(count) by \(contender.rawValue)",
                configuration: Benchmark.Configuration(
                    metrics: [.wallClock, .cpuTotal, .throughput, .peakMemoryResident],
                    warmupIterations: 1,
                    maxDuration: .seconds(2)
                )
            ) { benchmark in
                for _ in benchmark.scaledIterations {
                    blackHole(try await run(workload, by: contender, count: count))
                }
            }
        }
    }
}
