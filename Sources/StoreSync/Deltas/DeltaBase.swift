import ContentDigests
import RemoteStorage

/// The last push of this device, as a base for a delta: the remote holds exactly what this device remembers of it.
struct DeltaBase: Sendable {
    let chain: StoreChain
    let blocks: PushedBlocks

    /// Finds the base of the next push, in one round of requests.
    ///
    /// - Parameters:
    ///   - blocks: The store that this device pushed last.
    ///   - catalog: The uploads of its document.
    ///   - trust: What this device knows about the uploads.
    /// - Returns: `nil` if the remote holds something else.
    /// - Throws: What the hooks throw, except errors of the storage.
    static func find(
        _ blocks: PushedBlocks,
        in catalog: UploadCatalog,
        relyingOn trust: UploadTrust
    ) async throws -> DeltaBase? {
        let subject = blocks.subject
        let names = subject.names
        do {
            async let listed = catalog.files(of: names)
            let (manifests, _) = try await catalog.manifests(of: names)
            guard let head = manifests.first(where: { $0.name == names.last }),
                let chain = try? StoreChain(head, among: manifests), chain.references == subject.uploads,
                head.store.contentRoot.description == subject.contentRoot,
                head.store.size == subject.byteCount, chain.isComplete(try await listed, trust)
            else { return nil }
            return DeltaBase(chain: chain, blocks: blocks)
        } catch is RemoteError {
            // The base can't be reached. The push tries a whole copy, which reports the error if the remote is
            // unavailable.
            return nil
        }
    }

    /// The push that the delta builds on.
    var name: UploadName { chain.head.name }
}
