import ContentDigests
import Foundation
import Operations
import RemoteStorage

extension WholeStoreDownloadOperation {
    /// Downloads the store, and assembles it if it's not a whole copy.
    ///
    /// - Parameters:
    ///   - plan: What this pull does.
    ///   - local: The local store's content; `nil` if there is none.
    ///   - progress: Counts the bytes.
    /// - Returns: The digest of the store, which is the manifest's if it has one.
    /// - Throws: What the hooks throw, and errors of opening and assembling.
    func fetchStore(
        of plan: DownloadPlan,
        besides local: LocalContent?,
        _ progress: TransferProgress
    ) async throws -> ContentRoot {
        guard let chain = plan.source.chain else {
            return try await fetch(.store, from: plan.source, to: plan.arrival, progress)
        }
        guard document.application.isEncrypted else {
            return try await fetchPlainStore(chain.head, of: plan, progress)
        }
        let assembler = StoreAssembler(
            hierarchy: hierarchy,
            seal: document.application.seal,
            identity: document.identity,
            progress: progress,
            open: { [hooks] in try await hooks.downloadFile(at: $0, range: $1) }
        )
        let arrival = StoreArrival(
            assembler: assembler,
            journal: state.pullJournal(of: plan.store.path, in: key),
            document: key,
            integrityKey: document.integrityKey,
            store: plan.store,
            local: local
        )
        try await arrival.fetch(chain)
        return chain.head.store.contentRoot
    }

    /// Downloads a store that isn't sealed, or the rest of it after an interruption.
    ///
    /// The bytes kept from before are trusted only if the whole file has the digest that its manifest names.
    private func fetchPlainStore(
        _ manifest: StoreManifest,
        of plan: DownloadPlan,
        _ progress: TransferProgress
    ) async throws -> ContentRoot {
        let (url, context, expected) = (plan.arrival, progress.context, manifest.store)
        let start = try await min(beginPlainDownload(of: manifest, plan, context), expected.size)
        guard start > 0 else { return try await fetch(.store, from: plan.source, to: url, progress) }
        let path = manifest.path(of: .store, in: hierarchy)
        guard let rest = try await hooks.downloadFile(at: path, range: start..<Int64.max) else {
            throw StoreSyncError.notArrived(path)
        }
        progress.add(Int(start))
        try await FileReceiver(url: url, context: context, start: start, limit: expected.size)
            .receive(rest.counted(by: progress))
        let (byteCount, root) = try await ContentRoot.of(
            fileAt: url,
            document.application.seal.pageHash,
            on: context.blockingExecutor
        )
        guard root == expected.contentRoot, byteCount == expected.size else {
            // The kept bytes or the new ones are damaged. Only a whole download tells whether the upload is, too.
            return try await fetch(.store, from: plan.source, to: url, progress)
        }
        return root
    }

    /// Notes in the journal which upload is downloaded, and returns how many bytes of it an interrupted download has left.
    private func beginPlainDownload(
        of manifest: StoreManifest,
        _ plan: DownloadPlan,
        _ context: OperationContext
    ) async throws -> Int64 {
        let subject = TransferJournal.Subject(
            epoch: nil,
            document: key,
            integrityKey: document.integrityKey,
            client: manifest.name.client.rawValue,
            upload: manifest.name.reference,
            store: plan.store.path
        )
        let journal = state.pullJournal(of: plan.store.path, in: key)
        return try await context.blocking {
            let isSame = journal.read()?.subject == subject
            let kept = isSame ? try? plan.arrival.resourceValues(forKeys: [.fileSizeKey]).fileSize : nil
            _ = try journal.begin(subject, after: [NotedChunk]())
            return Int64(kept ?? 0)
        }
    }
}
