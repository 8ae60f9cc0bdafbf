import ThreadSupport

/// A piece of work that runs at most once at a time, whose result all concurrent callers share.
package final class SharedTask<Value: Sendable>: Sendable {
    private struct Run {
        var number = 0
        var task: Task<Value, any Error>?
    }

    private let run = Locked(Run())
    private let keepsValue: Bool

    /// Creates a shared task.
    ///
    /// - Parameter keepsValue: Whether later callers get the value of the last run, too. An error is never kept.
    package init(keepsValue: Bool) {
        self.keepsValue = keepsValue
    }

    /// Starts the work, unless it runs already or its value was kept.
    @discardableResult
    package func start(_ work: @escaping @Sendable () async throws -> Value) -> Task<Value, any Error> {
        run.withLock { run in
            if let task = run.task { return task }
            run.number += 1
            let task = Task { [number = run.number] in
                do {
                    let value = try await work()
                    if !keepsValue { forget(number) }
                    return value
                } catch {
                    forget(number)
                    throw error
                }
            }
            run.task = task
            return task
        }
    }

    /// Returns the value of the work, and starts it if necessary.
    ///
    /// The work is cancelled with each of its callers. The others then start it again.
    package func value(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        while true {
            let task = start(work)
            do {
                return try await withTaskCancellationHandler {
                    try await task.value
                } onCancel: {
                    task.cancel()
                }
            } catch is CancellationError where !Task.isCancelled {
                continue
            }
        }
    }

    private func forget(_ number: Int) {
        run.withLock { run in
            if run.number == number { run.task = nil }
        }
    }
}
