import Operations
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// Resumes transfers that were interrupted.
extension WholeStoreUploadOperation {
    /// Returns whether the transfer of a whole copy, or of a delta, can be resumed after an interruption.
    func canResumeTransfer(of taken: TakenStore) -> Bool {
        capabilities.contains(.resumableWrite) && taken.byteCount > RemoteContent.chunkSize
    }

    /// Returns what is recorded of an interrupted transfer that no device has seen; `nil` if there is nothing to
    /// resume.
    func cutOffTransfer(
        of store: LocalStore,
        _ root: ContentRoot?,
        _ delta: DeltaFile?,
        _ client: RemoteIdentifier,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> (subject: TransferJournal.Subject, chunks: [NotedChunk])? {
        let (noted, uploads, memory) = try await context.blocking { [state, key, document] in
            (
                state.pushJournal(of: key).read(), try state.uploads(for: key),
                try state.rollbackMemory(for: key, document.integrityKey).highestGeneration
            )
        }
        guard let noted else { return nil }
        let name = UploadName(client: client, noted.subject.upload)
        let others = uploads.map(\.name).filter { $0 != name } + published.manifests.map(\.name)
        var expected = subject(of: name, on: delta?.bases ?? [], store, noted.subject.salt, root)
        expected.attempt = noted.subject.attempt
        guard noted.subject == expected, !published.names.contains(name),
            uploads.contains(where: { $0.name == name && !$0.isPublished }),
            // It must be as new as a push that begins now.
            (others.map(\.generation) + [memory]).allSatisfy({ $0 < name.generation })
        else { return nil }
        // If the store's file is complete, the interruption came later, and the file may be another device's by now.
        let files = try await hooks.listFiles(in: hierarchy.upload(name)) ?? []
        let names = [WholeStoreFile.store.rawValue, DocumentHierarchy.deltaName]
        return files.contains { names.contains($0.name) } ? nil : noted
    }

    private func subject(
        of name: UploadName,
        on bases: [UploadReference],
        _ store: LocalStore,
        _ salt: [UInt8],
        _ root: ContentRoot?
    ) -> TransferJournal.Subject {
        TransferJournal.Subject(
            epoch: seal.key?.epoch,
            document: key,
            integrityKey: document.integrityKey,
            client: name.client.rawValue,
            upload: name.reference,
            bases: bases,
            store: store.path,
            salt: seal.isEncrypted ? salt : [],
            contentRoot: seal.isEncrypted ? nil : root?.description
        )
    }

    /// Uploads the files as ``transfer(_:_:_:_:_:)`` does, and resumes the store, or its delta, after an interruption.
    func resumeTransfer(
        _ manifest: StoreManifest,
        _ snapshots: Snapshots,
        _ digests: ContentSummary?,
        _ delta: DeltaFile?,
        _ store: LocalStore,
        _ cutOff: (subject: TransferJournal.Subject, chunks: [NotedChunk])?,
        _ context: OperationContext
    ) async throws -> ([StoreManifest.File], BlockDigests?) {
        let salt = cutOff?.subject.salt ?? EpochKey.newSalt()
        let subject = subject(of: manifest.name, on: manifest.bases, store, salt, digests?.contentRoot)
        let former = cutOff?.subject.attempt
        let receipts = state.pushJournal(of: self.key).receipts(of: former, on: context.blockingExecutor)
        guard let key = seal.key else {
            let files = try await resumePlainTransfer(
                manifest,
                snapshots,
                digests,
                subject,
                receipts,
                cutOff != nil,
                context
            )
            return (files, nil)
        }
        let progress = TransferProgress(context, phase: "uploading", totalBytes: snapshots.totalBytes(sending: delta))
        let (taken, executor) = (delta?.taken ?? snapshots.store, context.blockingExecutor)
        let file = state.pushJournal(of: self.key)
        let sealing = seal.context(manifest.role(of: .store, in: document.identity))
        let blockSize = digests == nil ? DeltaPolicy.blockSize(taken.byteCount) : nil
        return try await SealingWorkers.withWorkers { workers in
            // If two devices share this memory, the upload belongs to the device that sent the store, and only that
            // device sends more. So a resumed push sends the applied sets after the store.
            let isFirst = cutOff == nil
            async let early = isFirst ? sendAppliedSets(snapshots, manifest, progress, workers, executor) : []
            let outgoing = Locked<OutgoingFile?>(nil)
            let sent = try await hooks.resumeUpload(to: manifest.path(of: .store, in: hierarchy), receipts: receipts) {
                kept in
                let chunks = cutOff.map { $0.chunks.prefix(sealedBytes: kept) } ?? []
                let prefix = try await ChunkPrefix.of(
                    Array(chunks),
                    // The last chunk is marked as such, so it's never part of the prefix.
                    upTo: Int((taken.byteCount - 1) / Int64(RemoteContent.chunkSize)),
                    in: taken.content(on: executor),
                    blockSize: blockSize,
                    on: workers
                )
                let journal = try await context.blocking {
                    try file.begin(subject, after: chunks.prefix(prefix?.count ?? 0), receipts)
                }
                let source = taken.rest(after: prefix?.plainBytes ?? 0, progress, context) { journal.flush() }
                let rest = OutgoingFile(
                    source,
                    as: sealing,
                    key,
                    salt,
                    after: prefix,
                    blockSize: blockSize,
                    on: workers
                ) { index, chunk in
                    journal.note(chunk, at: index)
                }
                outgoing.withLock { $0 = rest }
                let content = RemoteContent(length: nil) {
                    var iterator = rest.content.makeAsyncIterator()
                    return {
                        let piece = try await iterator.next()
                        // At the end, when no more reads flush the journal.
                        if journal.isBehind { try await context.blocking { journal.flush() } }
                        return piece
                    }
                }
                return RemoteContentRest(content, after: prefix?.sealedBytes ?? 0)
            }
            note(sent)
            guard let outgoing = outgoing.withLock({ $0 }) else {
                preconditionFailure("an upload reads its content")
            }
            let sealed = try outgoing.stored(as: .store, snapshots.store.byteCount, digests?.contentRoot, delta)
            let applied =
                isFirst
                ? try await early : try await sendAppliedSets(snapshots, manifest, progress, workers, executor)
            return ([sealed] + applied, digests?.blocks ?? outgoing.blocks)
        }
    }

    /// Resumes the transfer of a store that isn't sealed: what was sent before is the beginning of the same store.
    private func resumePlainTransfer(
        _ manifest: StoreManifest,
        _ snapshots: Snapshots,
        _ digests: ContentSummary?,
        _ subject: TransferJournal.Subject,
        _ receipts: TransferReceipts,
        _ isCutOff: Bool,
        _ context: OperationContext
    ) async throws -> [StoreManifest.File] {
        guard let root = digests?.contentRoot else { preconditionFailure("an unsealed store is digested beforehand") }
        let progress = TransferProgress(context, phase: "uploading", totalBytes: snapshots.totalBytes(sending: nil))
        let (taken, executor) = (snapshots.store, context.blockingExecutor)
        let file = state.pushJournal(of: key)
        return try await SealingWorkers.withWorkers { workers in
            async let early = isCutOff ? [] : sendAppliedSets(snapshots, manifest, progress, workers, executor)
            let sent = try await hooks.resumeUpload(to: manifest.path(of: .store, in: hierarchy), receipts: receipts) {
                kept in
                let start = isCutOff ? min(kept, taken.byteCount) : 0
                _ = try await context.blocking { try file.begin(subject, after: [NotedChunk](), receipts) }
                return RemoteContentRest(taken.rest(after: start, progress, context), after: start)
            }
            note(sent)
            let applied =
                isCutOff ? try await sendAppliedSets(snapshots, manifest, progress, workers, executor) : try await early
            let store = StoreManifest.File(
                file: .store,
                size: taken.byteCount,
                storedSize: taken.byteCount,
                contentRoot: root,
                salt: nil
            )
            return [store] + applied
        }
    }
}

extension TakenStore {
    /// Returns the content after the first bytes, which count as transferred once reading begins.
    ///
    /// Until then, the content may be requested again. `whileReading` may block.
    fileprivate func rest(
        after start: Int64,
        _ progress: TransferProgress,
        _ context: OperationContext,
        whileReading: @escaping @Sendable () -> Void = {}
    ) -> RemoteContent {
        let rest = RemoteContent(length: byteCount - start) {
            progress.add(Int(start))
            var offset = start
            return {
                try Task.checkCancellation()
                let chunk = try await context.blocking { [offset] in
                    whileReading()
                    return try read(at: offset, upTo: RemoteContent.chunkSize)
                }
                offset += Int64(chunk.count)
                return chunk.isEmpty ? nil : chunk
            }
        }
        return rest.counted(by: progress)
    }
}

extension [NotedChunk] {
    /// Returns the chunks that are complete within the first bytes of a sealed file.
    fileprivate func prefix(sealedBytes: Int64) -> SubSequence {
        var end = Int64(ChunkPrefix.startBytes)
        return prefix {
            end += Int64($0.sealedBytes)
            return end <= sealedBytes
        }
    }
}
