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
        let item = try await hooks.resumeUpload(to: path(of: .store), receipts: receipts) { kept in
            let (file, start) = try await rest(after: kept, receipts)
            outgoing.withLock { $0 = file }
            return RemoteContentRest(file.content, after: start)
        }
        guard let outgoing = outgoing.withLock({ $0 }) else {
            throw StoreSyncError(
                .corrupt,
                """
                The storage says that it has \(path(of: .store)) although it didn't ask for the content. Nothing was \
                published. Correct resumeUpload or resumeWrite of the backend, then push again.
                """
            )
        }
        return try sent(outgoing, as: item)
    }

    /// Returns what is left to send of the file: the noted chunks that the remote has kept, and whose content the file still
    /// has, aren't sent again.
    private func rest(
        after kept: Int64,
        _ receipts: TransferReceipts
    ) async throws -> (OutgoingFile, start: Int64) {
        var form = form(of: .store)
        let sent = content.sent
        let chunks = plan.interrupted?.chunks.prefix(storedBytes: kept - form.startBytes) ?? []
        // The last chunk of a sealed file is marked as such, so it's never part of the prefix.
        let whole = Int((sent.byteCount - 1) / Int64(RemoteContent.chunkSize))
        form.prefix = try await NotedPrefix.of(
            chunks.prefix(whole),
            in: sent.content(on: executor),
            blockSize: form.blockSize,
            form.pages,
            on: workers
        )
        let subject = content.transferSubject(
            of: plan.manifest.name,
            plan.record.document,
            in: document,
            salt: form.sealing?.salt ?? []
        )
        let noted = try await context.blocking { [prefix = form.prefix] in
            try journal.begin(subject, after: prefix?.chunks ?? [], receipts)
        }
        form.onChunk = { index, chunk in noted.note(chunk, at: index) }
        let source = sent.rest(after: form.prefix?.plainBytes ?? 0, progress) { noted.flush() }
        var file = OutgoingFile(source, as: form, on: workers)
        let outgoing = file.content
        file.content = RemoteContent(length: outgoing.length) { [context] in
            var iterator = outgoing.makeAsyncIterator()
            return {
                let piece = try await iterator.next()
                // At the end, when no more reads flush the journal.
                if noted.isBehind { try await context.blocking { noted.flush() } }
                return piece
            }
        }
        return (file, form.sentBytes)
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
        TransferJournal.Subject(
            epoch: document.application.seal.key?.epoch,
            document: key,
            integrityKey: document.integrityKey,
            client: name.client.rawValue,
            upload: name.reference,
            bases: delta?.bases ?? [],
            store: store.path,
            salt: salt
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
        whileReading: @escaping @Sendable () -> Void
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
    /// Returns the chunks that are complete within a number of bytes.
    fileprivate func prefix(storedBytes: Int64) -> SubSequence {
        var end: Int64 = 0
        return prefix {
            end += Int64($0.storedBytes)
            return end <= storedBytes
        }
    }
}
