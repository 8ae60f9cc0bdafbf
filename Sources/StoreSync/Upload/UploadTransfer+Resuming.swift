import ContentDigests
import Operations
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// Sends a store, or its delta, so that the transfer can be resumed after an interruption.
extension UploadTransfer {
    func resumedStore() async throws -> SentFile {
        let outgoing = Locked<OutgoingFile?>(nil)
        let receipts = journal.receipts(of: plan.interrupted?.subject.attempt, on: executor)
        let sealing = sealing(.store)
        let item = try await hooks.resumeUpload(to: path(of: .store), receipts: receipts) { kept in
            let (file, start) =
                if let sealing {
                    try await sealedRest(after: kept, sealing, receipts)
                } else {
                    try await plainRest(after: kept, receipts)
                }
            outgoing.withLock { $0 = file }
            return RemoteContentRest(file.content, after: start)
        }
        guard let outgoing = outgoing.withLock({ $0 }) else { preconditionFailure("an upload reads its content") }
        return try sent(outgoing, as: item)
    }

    /// Returns what is left to send of a store that isn't sealed: the kept bytes are the beginning of the same store.
    private func plainRest(
        after kept: Int64,
        _ receipts: TransferReceipts
    ) async throws -> (OutgoingFile, start: Int64) {
        let start = plan.interrupted == nil ? 0 : min(kept, content.sent.byteCount)
        let subject = plan.transferSubject(in: document, salt: [])
        _ = try await context.blocking { try journal.begin(subject, after: [NotedChunk](), receipts) }
        let rest = content.sent.rest(after: start, progress)
        return (OutgoingFile(rest, nil, on: workers), start)
    }

    /// Returns what is left to send of a sealed file: the noted chunks that the remote has kept, and whose content the
    /// file still has, aren't sent again.
    private func sealedRest(
        after kept: Int64,
        _ sealing: OutgoingFile.Sealing,
        _ receipts: TransferReceipts
    ) async throws -> (OutgoingFile, start: Int64) {
        var sealing = sealing
        let sent = content.sent
        let chunks = plan.interrupted?.chunks.prefix(sealedBytes: kept) ?? []
        // The last chunk is marked as such, so it's never part of the prefix.
        let whole = Int((sent.byteCount - 1) / Int64(RemoteContent.chunkSize))
        let prefix = try await SealedPrefix.of(
            Array(chunks.prefix(whole)),
            in: sent.content(on: executor),
            blockSize: sealing.blockSize,
            sealing.key.pageHash,
            on: workers
        )
        let subject = plan.transferSubject(in: document, salt: sealing.salt)
        let noted = try await context.blocking {
            try journal.begin(subject, after: chunks.prefix(prefix?.count ?? 0), receipts)
        }
        sealing.prefix = prefix
        sealing.onChunk = { index, chunk in noted.note(chunk, at: index) }
        let source = sent.rest(after: prefix?.plainBytes ?? 0, progress) { noted.flush() }
        var file = OutgoingFile(source, sealing, on: workers)
        let sealed = file.content
        file.content = RemoteContent(length: nil) { [context] in
            var iterator = sealed.makeAsyncIterator()
            return {
                let piece = try await iterator.next()
                // At the end, when no more reads flush the journal.
                if noted.isBehind { try await context.blocking { noted.flush() } }
                return piece
            }
        }
        return (file, prefix?.sealedBytes ?? 0)
    }
}

extension UploadPlan {
    /// The subject of the transfer's journal.
    func transferSubject(in document: DocumentRegistration, salt: [UInt8]) -> TransferJournal.Subject {
        content.transferSubject(of: manifest.name, record.document, in: document, salt: salt)
    }
}

extension UploadContent {
    /// The subject of the journal if this content is sent as `name`.
    func transferSubject(
        of name: UploadName,
        _ key: DocumentKey,
        in document: DocumentRegistration,
        salt: [UInt8]
    ) -> TransferJournal.Subject {
        let isEncrypted = document.application.isEncrypted
        return TransferJournal.Subject(
            epoch: document.application.seal.key?.epoch,
            document: key,
            integrityKey: document.integrityKey,
            client: name.client.rawValue,
            upload: name.reference,
            bases: delta?.bases ?? [],
            store: store.path,
            salt: isEncrypted ? salt : [],
            contentRoot: isEncrypted ? nil : contentRoot?.description
        )
    }
}

extension TakenStore {
    /// Returns the content after the first bytes, which count as transferred once reading begins.
    ///
    /// Until then, the content may be requested again. `whileReading` may block.
    fileprivate func rest(
        after start: Int64,
        _ progress: TransferProgress,
        whileReading: @escaping @Sendable () -> Void = {}
    ) -> RemoteContent {
        let rest = RemoteContent(length: byteCount - start) {
            progress.add(Int(start))
            var offset = start
            return {
                try Task.checkCancellation()
                let chunk = try await progress.context.blocking { [offset] in
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
        var end = Int64(SealedPrefix.startBytes)
        return prefix {
            end += Int64($0.sealedBytes)
            return end <= sealedBytes
        }
    }
}
