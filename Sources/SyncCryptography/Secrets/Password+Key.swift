import ThreadSupport

extension Password {
    /// The default executor for hashing passwords, one at a time, since each hash may take a quarter of the memory.
    ///
    /// Where a supervisor has an executor for blocking work, that executor decides how many hashes run at the same time.
    private static let executor = BlockingExecutor(label: "swift-store-sync.passwords", maximumThreads: 1)

    /// Returns the key that Argon2id derives from the password.
    ///
    /// It takes about a second, on its own thread. If the waiting task is cancelled, this throws `CancellationError` at once. A running
    /// hash can't be stopped: it runs to its end, and its result is wiped. A hash that hasn't started doesn't start.
    ///
    /// - Parameters:
    ///   - salt: 16 random bytes for this password.
    ///   - parameters: The cost, which is validated before anything is allocated.
    ///   - executor: The executor on which the hash blocks; a dedicated thread if it's `nil`.
    /// - Returns: 32 bytes.
    /// - Throws: What ``PasswordParameters/validate()`` throws, ``CryptographyError/Code/outOfMemory``, or
    ///   `CancellationError`.
    package func key(
        salt: [UInt8],
        parameters: PasswordParameters,
        executor: (any TaskExecutor)? = nil
    ) async throws -> SecretBytes {
        try parameters.validateCost()
        let cost = cost ?? parameters
        let ticket = Ticket<SecretBytes>()
        // Not a child task: this task would have to wait for it even when cancelled.
        Task.detached(executorPreference: executor ?? Self.executor, priority: Task.currentPriority) { [bytes] in
            guard !ticket.isAbandoned else { return }
            ticket.finish(
                Result {
                    // Reads files.
                    try parameters.validate()
                    return try Argon2id.hash(bytes, salt: salt, passes: cost.passes, memory: cost.memory)
                }
            )
        }
        return try await ticket.value(of: "a password's hash")
    }
}
