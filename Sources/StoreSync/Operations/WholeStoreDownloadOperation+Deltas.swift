import Foundation
import Operations
import RemoteStorage
import SyncCryptography

extension WholeStoreDownloadOperation {
    /// Downloads the store, and puts it together where it's not a whole copy.
    func fetchStore(
        from source: StoreSource,
        to url: URL,
        of store: LocalStore,
        _ progress: TransferProgress,
        _ context: OperationContext
    ) async throws -> ContentRoot {
        guard let chain = source.chain, document.application.isEncrypted else {
            return try await fetch(.store, from: source, to: url, progress, context)
        }
        let assembler = StoreAssembler(
            hierarchy: hierarchy,
            seal: document.application.seal,
            identity: document.identity,
            progress: progress,
            open: { [hooks] in try await hooks.downloadFile(at: $0, range: $1) },
            resuming: StoreAssembler.Resumption(
                journal: state.pullJournal(of: store.path, in: key),
                document: key,
                integrityKey: document.integrityKey,
                store: store.path
            )
        )
        return try await assembler.assemble(chain, at: url, context)
    }
}
