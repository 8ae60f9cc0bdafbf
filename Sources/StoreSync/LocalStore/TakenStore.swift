import ContentDigests
import Foundation
import RemoteStorage
import ThreadSupport

/// One state of a local store, which is read as a file.
enum TakenStore: Sendable {
    /// Read in place.
    case held(any HeldStore)
    /// Read from a copy.
    case copied(StoreSnapshot)

    /// The maximum duration for which a state is held before it's copied.
    private static let maximumHold = Duration.seconds(30)

    /// Takes the current state of a store, which may be open and written to.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - holding: Whether it may be read in place, as ``HeldStore`` says; otherwise it's copied at once.
    ///   - copy: Where a copy is created if one is needed.
    /// - Returns: The state as it is now.
    /// - Throws: What ``StoreSnapshot/take(of:at:)`` throws.
    static func take(_ store: LocalStore, holding: Bool, copyingTo copy: URL) throws -> TakenStore {
        if holding, let held = HeldDatabase(store, copyingTo: copy) { return .held(held) }
        if holding, let held = HeldFile(store, copyingTo: copy) { return .held(held) }
        return .copied(try StoreSnapshot.take(of: store, at: copy))
    }

    /// Runs `body`, which reads the store, and copies a held store when ``maximumHold`` is over.
    ///
    /// Reads alone couldn't do that while `body` waits for a server.
    ///
    /// - Parameters:
    ///   - clock: The clock that measures the time.
    ///   - executor: The executor that makes the copy.
    ///   - body: Reads the store. When it returns, the limit ends.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws. If the copy fails, reads throw the error.
    nonisolated(nonsending) func limitingHold<Result>(
        by clock: any Clock<Duration>,
        on executor: (any TaskExecutor)?,
        _ body: nonisolated(nonsending) () async throws -> Result
    ) async throws -> Result {
        guard case .held(let store) = self else { return try await body() }
        async let _ = Self.copy(store, by: clock, on: executor)
        return try await body()
    }

    /// Copies a held store after some time, unless the task is cancelled before.
    private static func copy(
        _ store: any HeldStore,
        by clock: any Clock<Duration>,
        on executor: (any TaskExecutor)?
    ) async throws {
        try await clock.sleep(for: maximumHold)
        try await runBlocking(on: executor) { try store.copy() }
    }

    /// Its size in bytes.
    var byteCount: Int64 {
        switch self {
        case .held(let store): store.byteCount
        case .copied(let snapshot): snapshot.byteCount
        }
    }

    /// How its pages are digested.
    private var pages: PageHash {
        switch self {
        case .held(let held): held.store.pages
        case .copied(let snapshot): snapshot.pages
        }
    }

    /// Its digest, which may require reading the store.
    func contentRoot(on executor: (any TaskExecutor)?) async throws -> ContentRoot {
        if case .copied(let snapshot) = self, let root = snapshot.knownRoot { return root }
        return try await digests(withBlocks: false, on: executor).root
    }

    /// Reads the store for its digest and, if requested, the digests of its blocks.
    func digests(withBlocks: Bool, on executor: (any TaskExecutor)?) async throws -> FileDigests {
        let blockSize = withBlocks ? DeltaPolicy.blockSize(byteCount) : nil
        return try await FileDigester(blockSize: blockSize, pages)
            .digests(ofBytes: byteCount, on: executor) { try read(at: $0, upTo: $1) }
    }

    /// Reads a part of the store, as ``HeldStore/read(at:upTo:)`` does.
    ///
    /// Blocks.
    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        switch self {
        case .held(let store): return try store.read(at: offset, upTo: count)
        case .copied(let snapshot): return try snapshot.read(at: offset, upTo: count)
        }
    }

    /// Its bytes; reading blocks on the executor.
    func content(on executor: (any TaskExecutor)?) async throws -> RemoteContent {
        switch self {
        case .held(let store):
            return RemoteContent(length: store.byteCount) {
                var offset: Int64 = 0
                return {
                    try Task.checkCancellation()
                    let chunk = try await runBlocking(on: executor) { [offset] in
                        try store.read(at: offset, upTo: RemoteContent.chunkSize)
                    }
                    offset += Int64(chunk.count)
                    return chunk.isEmpty ? nil : chunk
                }
            }
        case .copied(let snapshot):
            return try await RemoteContent.file(at: snapshot.url, executor: executor)
        }
    }

    /// Checks that all that was read so far is one state, so that reading may continue.
    ///
    /// - Parameters:
    ///   - root: The digest of what was read.
    ///   - executor: The executor for what blocks.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if the store changed while it was read.
    func check(_ root: ContentRoot, on executor: (any TaskExecutor)?) async throws {
        if case .held(let store) = self { try await store.check(root, on: executor) }
    }

    /// Ends the reading: releases the store, or removes the copy.
    ///
    /// Before that, it checks what was read as ``check(_:on:)`` does.
    func release(having root: ContentRoot, on executor: (any TaskExecutor)?) async throws {
        try await check(root, on: executor)
        await discard(on: executor)
    }

    /// Ends the reading, whatever was read.
    func discard(on executor: (any TaskExecutor)?) async {
        try? await runBlocking(on: executor) {
            switch self {
            case .held(let store): store.release()
            case .copied(let snapshot): try? FileManager.default.removeItem(at: snapshot.url)
            }
        }
    }
}
