import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// Puts a store together on this device, of a whole copy and the deltas to it.
///
/// The memory that it takes doesn't grow with the store. What has come is checked at the end as a whole.
struct StoreAssembler: Sendable {
    let hierarchy: DocumentHierarchy
    let seal: ApplicationSeal
    let identity: DocumentIdentity
    let progress: TransferProgress
    /// Opens a file of the remote, or a range of its bytes; `nil` if it isn't there.
    let open: @Sendable (RemotePath, Range<Int64>?) async throws -> RemoteContent?

    /// Makes a store.
    ///
    /// - Parameters:
    ///   - chain: What it's made of.
    ///   - url: Where it goes; what a failure leaves there is the caller's to remove.
    ///   - context: The operation's.
    /// - Returns: Its digest, which is the one that its manifest names.
    /// - Throws: ``StoreSyncError``: `noUploadedStore` if a file isn't there, `corrupt` if the store isn't what was uploaded,
    ///   and what the seals say; `CancellationError`.
    func assemble(_ chain: StoreChain, at url: URL, _ context: OperationContext) async throws -> ContentRoot {
        let whole = try await opening(chain.whole) { try await FileReceiver.receive($0, at: url, on: context) }
        try check(whole.contentRoot, whole.plainBytes, chain.whole)
        for (base, delta) in zip(chain.manifests, chain.deltas) {
            try await apply(delta, to: base, at: url, context)
        }
        return chain.deltas.isEmpty ? whole.contentRoot : try await check(chain.head, at: url, context)
    }

    /// Downloads the file of a store, or the rest of it where that was cut off.
    ///
    /// - Parameters:
    ///   - manifest: The store's.
    ///   - url: Where it goes, and where its beginning may be.
    ///   - chunks: Those of its chunks that had come.
    ///   - context: The operation's.
    ///   - begin: Begins to note what comes, after those that are still there. May block.
    /// - Returns: What came, together with what had come.
    /// - Throws: As ``assemble(_:at:_:)``.
    func receive(
        _ manifest: StoreManifest,
        at url: URL,
        after chunks: [NotedChunk],
        _ context: OperationContext,
        noting begin: @escaping @Sendable (ArraySlice<NotedChunk>) throws -> TransferJournal
    ) async throws -> ContentSummary {
        let prefix = try await received(chunks, of: manifest, at: url, context)
        let journal = try await context.blocking { try begin(chunks.prefix(prefix?.count ?? 0)) }
        progress.add(Int(prefix?.sealedBytes ?? 0))
        return try await opening(manifest, after: prefix) { index, chunk in
            journal.note(chunk, at: index)
        } body: { content in
            let start = prefix?.plainBytes ?? 0
            try await FileReceiver.receive(content, at: url, after: start, on: context) { journal.flush() }
        }
    }

    /// What stands at `url` of the chunks that were noted.
    private func received(
        _ chunks: [NotedChunk],
        of manifest: StoreManifest,
        at url: URL,
        _ context: OperationContext
    ) async throws -> ChunkPrefix? {
        guard !chunks.isEmpty, FileManager.default.fileExists(atPath: url.path),
            let start = try await open(manifest.path(of: .store, in: hierarchy), 0..<Int64(ChunkPrefix.startBytes))
        else { return nil }
        let bytes = try await start.bytes(upTo: ChunkPrefix.startBytes)
        let content = try await RemoteContent.file(at: url, executor: context.blockingExecutor)
        return try await SealingWorkers.withWorkers {
            try await ChunkPrefix.of(chunks, upTo: chunks.count, in: content, start: bytes, on: $0)
        }
    }

    /// Makes of a store the one that builds on it.
    ///
    /// - Parameters:
    ///   - delta: The one that is made.
    ///   - base: What stands at `url`.
    ///   - url: Where it is.
    ///   - context: The operation's.
    /// - Throws: As ``assemble(_:at:_:)``, but for a store that isn't what was uploaded: check that after the last one.
    func apply(
        _ delta: StoreManifest,
        to base: StoreManifest,
        at url: URL,
        _ context: OperationContext
    ) async throws {
        _ = try await opening(delta) { try await apply($0, of: delta, to: base, at: url, context) }
    }

    /// Makes of a store the one that builds on it, by the delta's content.
    func apply<Content: AsyncSequence & Sendable>(
        _ content: Content,
        of delta: StoreManifest,
        to base: StoreManifest,
        at url: URL,
        _ context: OperationContext
    ) async throws where Content.Element == [UInt8] {
        guard let size = delta[.store]?.size, let baseSize = base[.store]?.size else {
            preconditionFailure("a manifest names its store")
        }
        let file = try await context.blocking { try PatchedFile(at: url, byteCount: size) }
        var reader = DeltaReader(baseSize: baseSize, size: size)
        do {
            for try await chunk in content {
                try Task.checkCancellation()
                reader = try await context.blocking { [reader] in
                    var reader = reader
                    try reader.read(chunk) { try file.write($1, at: $0) }
                    return reader
                }
            }
            try reader.finish()
        } catch let error as DeltaReader.Malformed {
            throw StoreSyncError.corrupt(delta.path(of: .store, in: hierarchy), error.reason)
        }
        try await context.blocking { try file.synchronize() }
    }

    /// Checks that what stands at `url` is the store of a generation.
    @discardableResult
    func check(_ manifest: StoreManifest, at url: URL, _ context: OperationContext) async throws -> ContentRoot {
        let content = try await RemoteContent.file(at: url, executor: context.blockingExecutor)
        let (byteCount, root) = try await SealingWorkers.withWorkers { try await ContentRoot.of(content, on: $0) }
        try check(root, byteCount, manifest)
        return root
    }

    func check(_ root: ContentRoot, _ byteCount: Int64, _ manifest: StoreManifest) throws {
        guard root == manifest[.store]?.contentRoot, byteCount == manifest[.store]?.size else {
            throw StoreSyncError.notAsUploaded(manifest.path(of: .store, in: hierarchy))
        }
    }

    /// Opens the file of a store, or what comes after a part of it, and returns what came when `body` has read it.
    private func opening(
        _ manifest: StoreManifest,
        after prefix: ChunkPrefix? = nil,
        onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)? = nil,
        body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let path = manifest.path(of: .store, in: hierarchy)
        guard let key = seal.key else {
            throw StoreSyncError(.corrupt, "\(path) is a delta, and \(seal.application) isn't encrypted.")
        }
        guard let content = try await open(path, prefix.map { $0.sealedBytes..<Int64.max }) else {
            throw StoreSyncError(.noUploadedStore, "\(path) has not arrived on the remote. Try again later.")
        }
        let context = seal.context(manifest.role(of: .store, in: identity))
        do {
            return try await key.pass(
                over: content.counted(by: progress),
                as: context,
                salt: manifest[.store]?.salt,
                after: prefix,
                onChunk: onChunk,
                body
            )
        } catch let error as CryptographyError {
            throw StoreSyncError(error, at: path)
        }
    }
}
