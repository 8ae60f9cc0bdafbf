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
    /// Opens a file of the remote; `nil` if it isn't there.
    let open: @Sendable (RemotePath) async throws -> RemoteContent?

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
        var base = chain.whole
        for delta in chain.deltas {
            try await apply(delta, to: base, at: url, context)
            base = delta
        }
        return chain.deltas.isEmpty ? whole.contentRoot : try await check(base, at: url, context)
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
        guard let size = delta[.store]?.size, let baseSize = base[.store]?.size else {
            preconditionFailure("a manifest names its store")
        }
        do {
            _ = try await opening(delta) { content in
                let file = try await context.blocking { try PatchedFile(at: url, byteCount: size) }
                var reader = DeltaReader(baseSize: baseSize, size: size)
                for try await chunk in content {
                    try Task.checkCancellation()
                    reader = try await context.blocking { [reader] in
                        var reader = reader
                        try reader.read(chunk) { try file.write($1, at: $0) }
                        return reader
                    }
                }
                try reader.finish()
                try await context.blocking { try file.synchronize() }
            }
        } catch let error as DeltaReader.Malformed {
            throw StoreSyncError.corrupt(delta.path(of: .store, in: hierarchy), error.reason)
        }
    }

    /// Checks that what stands at `url` is the store of a generation.
    @discardableResult
    func check(_ manifest: StoreManifest, at url: URL, _ context: OperationContext) async throws -> ContentRoot {
        let content = try await RemoteContent.file(at: url, executor: context.blockingExecutor)
        let (byteCount, root) = try await SealingWorkers.withWorkers { try await ContentRoot.of(content, on: $0) }
        try check(root, byteCount, manifest)
        return root
    }

    private func check(_ root: ContentRoot, _ byteCount: Int64, _ manifest: StoreManifest) throws {
        guard root == manifest[.store]?.contentRoot, byteCount == manifest[.store]?.size else {
            throw StoreSyncError.notAsUploaded(manifest.path(of: .store, in: hierarchy))
        }
    }

    /// Opens the file of a store, and returns what came when `body` has read it.
    private func opening(
        _ manifest: StoreManifest,
        _ body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let path = manifest.path(of: .store, in: hierarchy)
        guard let key = seal.key else {
            throw StoreSyncError(.corrupt, "\(path) is a delta, and \(seal.application) isn't encrypted.")
        }
        guard let content = try await open(path) else {
            throw StoreSyncError(.noUploadedStore, "\(path) has not arrived on the remote. Try again later.")
        }
        let context = seal.context(manifest.role(of: .store, in: identity))
        do {
            return try await key.pass(
                over: content.counted(by: progress),
                as: context,
                salt: manifest[.store]?.salt,
                body
            )
        } catch let error as CryptographyError {
            throw StoreSyncError(error, at: path)
        }
    }
}
