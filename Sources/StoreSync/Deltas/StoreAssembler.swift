import ContentDigests
import FileSupport
import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import SystemPackage

/// Assembles a store on this device from a whole copy and the deltas to it.
///
/// Memory use doesn't grow with the store. The assembled store is checked as a whole at the end.
struct StoreAssembler: Sendable {
    let hierarchy: DocumentHierarchy
    let seal: ApplicationSeal
    let identity: DocumentIdentity
    let progress: TransferProgress
    /// Opens a file of the remote, or a range of its bytes; `nil` if the file doesn't exist.
    let open: @Sendable (RemotePath, Range<Int64>?) async throws -> RemoteContent?

    private var context: OperationContext { progress.context }

    /// Assembles a store.
    ///
    /// - Parameters:
    ///   - chain: The uploads that make up the store.
    ///   - url: The destination. After a failure the caller removes what is left there.
    /// - Throws: ``StoreSyncError``: `noUploadedStore` if a file doesn't exist, `corrupt` if the store isn't what was
    ///   uploaded, and the errors of opening a sealed file; `CancellationError`.
    func assemble(_ chain: StoreChain, at url: URL) async throws {
        let pass = try await opening(chain.whole) { try await FileReceiver(url: url, context: context).receive($0) }
        try await check(pass, of: chain.whole, at: url)
        for (base, delta) in zip(chain.manifests, chain.deltas) {
            try await apply(delta, to: base, at: url)
        }
        if !chain.deltas.isEmpty { try await check(chain.head, at: url) }
    }

    /// Downloads the file of a store, or the rest of it after an interruption.
    ///
    /// - Parameters:
    ///   - manifest: The store's manifest.
    ///   - url: The destination, which may hold the beginning of the file already.
    ///   - chunks: The chunks that have arrived already.
    ///   - begin: Starts the journal, after the chunks that are still valid. May block.
    /// - Returns: The summary of the pass; `nil` if a part of the file had arrived already, which the pass didn't see.
    /// - Throws: As ``assemble(_:at:)``.
    func receive(
        _ manifest: StoreManifest,
        at url: URL,
        after chunks: [NotedChunk],
        noting begin: @escaping @Sendable (ArraySlice<NotedChunk>) throws -> TransferJournal
    ) async throws -> ContentSummary? {
        let kept = try await keptChunks(chunks, at: url)
        let prefix = try await prefix(of: kept, manifest)
        let journal = try await context.blocking { try begin(prefix == nil ? [] : kept) }
        progress.add(Int(prefix?.sealedBytes ?? 0))
        let pass = try await opening(manifest, after: prefix) { index, chunk in
            journal.note(chunk, at: index)
        } body: { content in
            let start = prefix?.plainBytes ?? 0
            let receiver = FileReceiver(url: url, context: context, start: start) { journal.flush() }
            try await receiver.receive(content)
        }
        return prefix == nil ? pass : nil
    }

    /// The noted chunks for which the file at `url` is long enough; its content is checked with the whole store.
    private func keptChunks(_ chunks: [NotedChunk], at url: URL) async throws -> ArraySlice<NotedChunk> {
        try await context.blocking {
            let values = try? url.resourceValues(forKeys: [.isRegularFileKey, .fileSizeKey])
            let byteCount = values?.isRegularFile == true ? values?.fileSize ?? 0 : 0
            return chunks.prefix(byteCount / ContentRoot.blockSize)
        }
    }

    private func prefix(of kept: ArraySlice<NotedChunk>, _ manifest: StoreManifest) async throws -> OpenedPrefix? {
        let path = manifest.path(of: .store, in: hierarchy)
        guard !kept.isEmpty, let start = try await open(path, 0..<Int64(EpochKey.sealedHeaderBytes)) else { return nil }
        return OpenedPrefix(kept, start: try await start.bytes(upTo: EpochKey.sealedHeaderBytes))
    }

    /// Applies a delta to a store.
    ///
    /// - Parameters:
    ///   - delta: The manifest of the delta.
    ///   - base: The manifest of the store at `url`.
    ///   - url: The file of the store.
    /// - Throws: As ``assemble(_:at:)``, but the result isn't checked: check it after the last delta.
    func apply(_ delta: StoreManifest, to base: StoreManifest, at url: URL) async throws {
        _ = try await opening(delta) { try await apply($0, of: delta, to: base, at: url) }
    }

    /// Applies a delta's content to a store.
    func apply<Content: AsyncSequence & Sendable>(
        _ content: Content,
        of delta: StoreManifest,
        to base: StoreManifest,
        at url: URL
    ) async throws where Content.Element == [UInt8] {
        let size = delta.store.size
        let file = try await context.blocking {
            try LocalFile.writing(url.path) { () throws(Errno) in
                // A symbolic link at this path could lead to another user's file.
                let file = try OpenFile(path: url.path, O_RDWR | O_NOFOLLOW)
                try file.truncate(to: size)
                return file
            }
        }
        var reader = DeltaReader(baseSize: base.store.size, size: size)
        do {
            for try await chunk in content {
                try Task.checkCancellation()
                reader = try await context.blocking { [reader] in
                    var reader = reader
                    try reader.read(chunk) { offset, bytes in
                        try LocalFile.writing(url.path) { () throws(Errno) in try file.write(bytes, at: offset) }
                    }
                    return reader
                }
            }
            try reader.finish()
        } catch let error as DeltaReader.Malformed {
            throw StoreSyncError.corrupt(delta.path(of: .store, in: hierarchy), error.reason)
        }
        try await context.blocking {
            try LocalFile.writing(url.path) { () throws(Errno) in try file.synchronize() }
        }
    }

    /// Checks that the whole copy that a pass has opened is the store that its manifest names.
    ///
    /// The file at `url` is read only if the seals don't prove it.
    func check(_ pass: ContentSummary, of manifest: StoreManifest, at url: URL) async throws {
        if !manifest.store.isProven(by: pass) { try await check(manifest, at: url) }
    }

    /// Checks that the file at `url` is the store that a manifest names.
    func check(_ manifest: StoreManifest, at url: URL) async throws {
        let (byteCount, root) = try await ContentRoot.of(fileAt: url, seal.pageHash, on: context.blockingExecutor)
        guard root == manifest.store.contentRoot, byteCount == manifest.store.size else {
            throw StoreSyncError.notAsUploaded(manifest.path(of: .store, in: hierarchy))
        }
    }

    /// Opens the file of a store, or the rest of it after `prefix`, and returns its summary when `body` has read it.
    private func opening(
        _ manifest: StoreManifest,
        after prefix: OpenedPrefix? = nil,
        onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)? = nil,
        body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let path = manifest.path(of: .store, in: hierarchy)
        guard let key = seal.key else {
            throw StoreSyncError(.corrupt, "\(path) is a delta, but \(seal.application) isn't encrypted.")
        }
        guard let content = try await open(path, prefix.map { $0.sealedBytes..<Int64.max }) else {
            throw StoreSyncError.notArrived(path)
        }
        let context = seal.context(manifest.role(of: .store, in: identity))
        do {
            return try await key.pass(
                over: content.counted(by: progress),
                FileOpening(context: context, salt: manifest.store.seal?.salt, prefix: prefix, onChunk: onChunk),
                body
            )
        } catch let error as CryptographyError {
            throw StoreSyncError(error, ofStoreFileAt: path)
        }
    }
}
