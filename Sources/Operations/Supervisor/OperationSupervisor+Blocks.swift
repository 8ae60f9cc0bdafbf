// Operations that are written as closures where they are added.

extension OperationSupervisor {
    /// Adds a block, which becomes an operation with the block as its `main`.
    ///
    /// ```swift
    /// let size = supervisor.add { context in
    ///     context.reportProgress(0.5)
    ///     return try await download(url).count
    /// }
    /// ```
    ///
    /// The block has everything that ``Operation/main(_:)`` has: its context, retry, cancellation. A block needs a name in
    /// its options, because its type doesn't describe it.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Name, priority, keys and the rest.
    ///   - block: The work. Throwing `CancellationError` ends it as cancelled, any other error as failed.
    /// - Returns: A handle of the block's output.
    @discardableResult
    public nonisolated func add<Output: Sendable>(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        _ block: @escaping @Sendable (OperationContext) async throws -> Output
    ) -> OperationHandle<Output> {
        add(Block(block), after: dependencies, options: options)
    }

    /// Adds a block that runs alone: after all operations that were added before it, before all that are added later.
    ///
    /// - Parameters:
    ///   - dependencies: Further operations that must end first, in other supervisors.
    ///   - options: Name, priority and the rest.
    ///   - block: The work.
    /// - Returns: A handle of the block's output.
    @discardableResult
    public nonisolated func addBarrier<Output: Sendable>(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        _ block: @escaping @Sendable (OperationContext) async throws -> Output
    ) -> OperationHandle<Output> {
        addBarrier(Block(block), after: dependencies, options: options)
    }

    /// Adds a block as soon as the supervisor holds fewer operations than its capacity, first come, first served.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Name, priority, keys and the rest. A coalescing key has no effect here.
    ///   - block: The work.
    /// - Returns: A handle of the block's output.
    /// - Throws: What ``addWhenRoom(_:after:options:)`` throws.
    @discardableResult
    public func addWhenRoom<Output: Sendable>(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        _ block: @escaping @Sendable (OperationContext) async throws -> Output
    ) async throws -> OperationHandle<Output> {
        try await addWhenRoom(Block(block), after: dependencies, options: options)
    }
}

extension OperationContext {
    /// Adds a block as a child of this operation, which doesn't end before its children.
    ///
    /// See ``addChild(_:after:options:)`` for what children inherit and what holds them back.
    ///
    /// - Parameters:
    ///   - dependencies: The operations that must end first.
    ///   - options: Name, priority (raised to the parent's if lower), keys (which must be among the parent's).
    ///   - block: The work.
    /// - Returns: A handle of the block's output.
    /// - Throws: What ``addChild(_:after:options:)`` throws.
    @discardableResult
    public func addChild<Output: Sendable>(
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil,
        _ block: @escaping @Sendable (OperationContext) async throws -> Output
    ) throws -> OperationHandle<Output> {
        try addChild(Block(block), after: dependencies, options: options)
    }
}

extension OperationHandle {
    /// Adds, to the same supervisor, a block that gets this operation's output once this one has finished.
    ///
    /// If this operation fails, the block never runs, and its handle fails with the same error. If this one is cancelled,
    /// so is the block.
    ///
    /// ```swift
    /// let count = page.then { text, context in text.count }
    /// ```
    ///
    /// - Parameters:
    ///   - options: Name, priority and the other options of the block. A coalescing key has no effect here.
    ///   - block: The work, with this operation's output.
    /// - Returns: A handle of the block's output.
    @discardableResult
    public func then<Next: Sendable>(
        options: OperationOptions? = nil,
        _ block: @escaping @Sendable (Output, OperationContext) async throws -> Next
    ) -> OperationHandle<Next> {
        then(options: options) { output in Block { context in try await block(output, context) } }
    }
}
