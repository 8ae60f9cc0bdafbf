import ContentDigests

/// One state of a store that is read in place, while other programs may write to the store.
///
/// How a state lasts while others write depends on the kind of store. None lasts for long: the state is copied after
/// ``TakenStore/maximumHold``, and reads continue from the copy.
protocol HeldStore: AnyObject, Sendable {
    /// The store.
    var store: LocalStore { get }

    /// The state's size in bytes.
    var byteCount: Int64 { get }

    /// Reads a part of the state.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - offset: Where the part begins, in bytes.
    ///   - count: How many bytes to read, at least 100 at offset 0.
    /// - Returns: The bytes; fewer than `count` only at the end.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if they can't be read, `cannotWrite` if they can't be copied;
    ///   `CancellationError`.
    func read(at offset: Int64, upTo count: Int) throws -> [UInt8]

    /// Copies the state, unless it was copied already; reads continue from the copy.
    ///
    /// Blocks. If the state can't be copied, it isn't held any longer, and reads fail.
    ///
    /// - Throws: `CancellationError`; the state is then still held.
    func copy() throws

    /// Checks that all that was read was one state.
    ///
    /// - Parameters:
    ///   - root: The digest of what was read.
    ///   - executor: The executor for what blocks.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if the store changed while it was read.
    func check(_ root: ContentRoot, on executor: (any TaskExecutor)?) async throws

    /// Releases the store, and removes the copy.
    ///
    /// Blocks.
    func release()
}
