import Logging

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What all operations of a supervisor share: time, logging and the executors to run and to block on.
final class OperationEnvironment: Sendable {
    let clock: any Clock<Duration>
    let logger: Logger
    let executor: (any TaskExecutor)?
    let blockingExecutor: (any TaskExecutor)?
    let temporaryDirectory: URL?

    init(_ configuration: OperationSupervisor.Configuration) {
        clock = configuration.clock
        logger = configuration.logger
        executor = configuration.executor
        blockingExecutor = configuration.blockingExecutor
        temporaryDirectory = configuration.temporaryDirectory
    }

    /// Runs `body` in a task that isn't cancelled when the current one is: for ending phases and cleaning up.
    func shielded(_ body: @escaping @Sendable () async -> Void) async {
        guard Task.isCancelled else { return await body() }
        await Task.detached(executorPreference: executor, operation: body).value
    }
}
