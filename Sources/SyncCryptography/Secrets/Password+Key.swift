import ThreadSupport

extension Password {
    /// Where passwords are hashed if nobody says where: one at a time, since each may take a quarter of the memory.
    private static let executor = BlockingExecutor(label: "swift-store-sync.passwords", isSerial: true)

    /// The key that Argon2id makes of the password.
    ///
    /// It takes a second or so, on a thread of its own. If the waiting task is cancelled, this throws `CancellationError` at once:
    /// nobody can stop a hash, so it ends by itself, and what it made is wiped. One that hasn't begun doesn't begin.
    ///
    /// - Parameters:
    ///   - salt: 16 bytes, made at random for this password.
    ///   - parameters: What it costs; checked before anything is allocated.
    ///   - executor: Where to block; a thread for that purpose where it is `nil`.
    /// - Returns: 32 bytes.
    /// - Throws: What ``PasswordParameters/validate()`` throws, ``CryptographyError/Code/outOfMemory``, or
    ///   `CancellationError`.
    package func key(
        salt: [UInt8],
        parameters: PasswordParameters,
        executor: (any TaskExecutor)? = nil
    ) async throws -> SecretBytes {
        try parameters.validate()
        let cost = cost ?? parameters
        let ticket = Ticket<SecretBytes>()
        // Not a child of this task, which would have to wait for it: that is what must not happen.
        Task.detached(executorPreference: executor ?? Self.executor, priority: Task.currentPriority) { [bytes] in
            guard !ticket.isAbandoned else { return }
            ticket.finish(
                Result {
                    try Argon2id.hash(bytes, salt: salt, passes: cost.passes, memory: cost.memory)
                }
            )
        }
        return try await ticket.value(of: "a password's hash")
    }
}
