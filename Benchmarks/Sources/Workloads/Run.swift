/// How many operations run at once, for the contenders that have such a bound.
let width = 2

/// Runs a workload once.
///
/// - Parameters:
///   - workload: What to do.
///   - contender: Who does it.
///   - count: How many operations.
/// - Returns: How long it took, and what was counted; `nil` if the contender can't do such a thing.
/// - Throws: What an operation threw that shouldn't have.
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

/// How long `body` takes.
func timed(_ body: () async throws -> Void) async rethrows -> Duration {
    try await ContinuousClock().measure(body)
}
