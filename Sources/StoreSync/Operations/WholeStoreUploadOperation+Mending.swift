import Operations
import RemoteStorage

/// What a push relies on is whole, or isn't relied on.
extension WholeStoreUploadOperation {
    /// The last push, if all of it is on the remote as it was sent.
    func deltaBase(_ context: OperationContext) async throws -> DeltaBase? {
        try await DeltaBase.find(
            state.pushedBlocks(of: key),
            of: document,
            key,
            hooks,
            relyingOn: trust(context),
            context
        )
    }

    /// The uploads that make up a store and aren't whole on the remote, as far as a listing of their folders shows it.
    func broken(in chain: StoreChain, _ context: OperationContext) async throws -> Set<UploadName> {
        let names = chain.manifests.map(\.name)
        async let trust = trust(context)
        let listed = try await together(names) { [hooks, hierarchy] in
            try await hooks.listFiles(in: hierarchy.upload($0)) ?? []
        }
        return try await chain.broken(Dictionary(uniqueKeysWithValues: zip(names, listed)), trust)
    }

    private func trust(_ context: OperationContext) async throws -> UploadTrust {
        try await context.blocking { [state, key] in
            let tags = try state.uploads(for: key).filter { !$0.tags.isEmpty }.map { ($0.name, $0.tags) }
            return UploadTrust(
                damaged: try state.damagedUploads(for: key),
                tags: Dictionary(tags, uniquingKeysWith: { first, _ in first })
            )
        }
    }
}
