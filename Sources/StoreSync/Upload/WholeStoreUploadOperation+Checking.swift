import Operations
import SyncCryptography

/// Checks that the uploads that a push relies on are complete.
extension WholeStoreUploadOperation {
    /// Returns the last push, if all of it is on the remote as it was sent.
    func deltaBase(_ context: OperationContext) async throws -> DeltaBase? {
        guard seal.isEncrypted,
            let blocks = try await context.blocking({ [state, key] in state.pushedBlocks(of: key).read() }),
            blocks.subject.epoch == seal.key?.epoch, blocks.subject.document == key
        else { return nil }
        return try await DeltaBase.find(blocks, in: catalog, relyingOn: trust(in: blocks.subject.names, context))
    }

    /// Returns the uploads of stores that aren't complete on the remote, as far as a listing of their folders shows it.
    func broken(in chains: [StoreChain], _ context: OperationContext) async throws -> Set<UploadName> {
        let names = Array(Set(chains.flatMap(\.manifests).map(\.name)))
        async let trusted = trust(in: names, context)
        let (lists, trust) = try await (catalog.files(of: names), trusted)
        return chains.reduce(into: []) { $0.formUnion($1.broken(lists, trust)) }
    }

    /// Returns the manifests whose uploads are complete on the remote, as far as a listing of their folders shows it.
    func completeUploads(
        among manifests: [StoreManifest],
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> [StoreManifest] {
        let chains = manifests.compactMap { try? StoreChain($0, among: published.manifests) }
        let broken = try await broken(in: chains, context)
        return chains.map(\.head).filter { !broken.contains($0.name) }
    }

    private func trust(in names: [UploadName], _ context: OperationContext) async throws -> UploadTrust {
        try await context.blocking { [state, key] in try state.trust(in: names, of: key) }
    }
}
