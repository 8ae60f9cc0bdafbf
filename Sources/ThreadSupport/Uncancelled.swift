/// Runs `body` in a task of its own, which isn't cancelled with the current one, and waits for its end.
///
/// - Parameters:
///   - executor: The executor that the task prefers.
///   - body: What to do even if the current task is cancelled, such as a cleanup.
/// - Returns: What `body` returns.
/// - Throws: What `body` throws.
package func uncancelled<Value: Sendable, Failure: Error>(
    on executor: (any TaskExecutor)? = nil,
    _ body: @escaping @Sendable () async throws(Failure) -> Value
) async throws(Failure) -> Value {
    let task = Task(executorPreference: executor) { () async -> Result<Value, Failure> in
        do throws(Failure) {
            return .success(try await body())
        } catch {
            return .failure(error)
        }
    }
    return try await task.value.get()
}
