/// The number of operations that run at once, for the contenders that have such a limit.
let width = 2

/// Runs a workload once.
///
/// - Parameters:
///   - workload: The workload.
///   - contender: The contender that runs it.
///   - count: The number of operations.
/// - Returns: The time it took, and the other measured values; `nil` if the contender can't run the workload.
/// - Throws: The error of an operation that shouldn't have failed.
public func run(_ workload: Workload, by contender: Contender, count: Int) async throws -> Measurement? {
    switch contender {
    case .operations: try await runOperations(workload, count)
    case .operationQueue: await runOperationQueue(workload, count)
    case .taskGroup: await runTaskGroup(workload, count)
    case .taskGroupOfActors: await runTaskGroupOfActors(workload, count)
    case .allCores: try await runSealing(workload, count, workers: nil)
    case .oneCore: try await runSealing(workload, count, workers: 1)
    case .sodium: await runSodium(workload, count, digests: false)
    case .sodiumWithDigest: await runSodium(workload, count, digests: true)
    }
}

/// Returns the time that `body` takes.
func timed(_ body: () async throws -> Void) async rethrows -> Duration {
    try await ContinuousClock().measure(body)
}
