import ContentDigests
import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// Downloads a store next to the local one, and resumes an interrupted download.
///
/// Each file of the chain is downloaded to its own path. When all files have arrived, the deltas are applied to the
/// whole copy in order. Applying them again after an interruption gives the same result: every block that differs from
/// the whole copy is in a delta. Files and chunks of an earlier download are trusted only if the result is the store that
/// was uploaded.
///
/// If the local store is one of the uploads, it's copied instead of being downloaded, and only the deltas after it are
/// downloaded.
struct StoreArrival: Sendable {
    let assembler: StoreAssembler
    /// The journal of what has arrived.
    let journal: TransferJournal.File
    /// The document, and its integrity key.
    let document: DocumentKey
    let integrityKey: String
    let store: LocalStore
    /// The local store's content; `nil` if there is none.
    let local: LocalContent?

    /// The path to which a file of the store is downloaded.
    private func url(of manifest: StoreManifest) -> URL {
        StoreReplacement.temporaryURL(for: store, of: manifest.name, journal)
    }

    private var context: OperationContext { assembler.progress.context }

    /// Downloads a store, to the path of its whole copy.
    ///
    /// - Parameter chain: The uploads that make up the store.
    /// - Throws: What ``StoreAssembler/assemble(_:at:)`` throws, and what ``StoreSnapshot/take(of:at:)`` throws. The caller then
    ///   removes the files that are left.
    func fetch(_ chain: StoreChain) async throws {
        let url = url(of: chain.whole)
        let rest = (local?.root).flatMap(chain.continuing)
        let missing = rest ?? chain
        let (noted, kept) = try await context.blocking {
            let noted = journal.read()
            return (noted, noted.map { arrivedCount(of: missing, at: url, as: $0.subject) } ?? 0)
        }
        var (arrived, isResumed) = (kept, kept > 0)
        do {
            if rest != nil {
                let known = chain.manifests.dropLast(missing.manifests.count)
                assembler.progress.add(known.reduce(0) { $0 + Int($1.store.storedSize) })
                if arrived == 0 {
                    try await copyLocalStore(to: url)
                    (arrived, isResumed) = (1, true)
                }
            }
            try await fetch(missing, at: url, after: arrived, noted, &isResumed)
        } catch let error as StoreSyncError where error.code == .corrupt && isResumed {
            // The files of the earlier download or the new files are damaged, or the local store was changed: only a
            // complete download shows which.
            try await fetch(chain, at: url, after: 0, nil, &isResumed)
        }
    }

    private func copyLocalStore(to url: URL) async throws {
        try await context.blocking { [store, local] in
            try? FileManager.default.removeItem(at: url)
            // The copy may be on another volume.
            if let copy = local?.copy, rename(copy.path, url.path) == 0 { return }
            _ = try StoreSnapshot.take(of: store, at: url)
        }
    }

    /// How many files of the chain have arrived already; the first one at `url`.
    ///
    /// Blocks.
    private func arrivedCount(of chain: StoreChain, at url: URL, as noted: TransferJournal.Subject) -> Int {
        guard chain.references.starts(with: noted.bases),
            noted == subject(of: noted.upload, after: noted.bases, chain, salt: noted.salt)
        else { return 0 }
        return chain.manifests.prefix(noted.bases.count).prefix { manifest in
            let path = manifest == chain.whole ? url : self.url(of: manifest)
            return (try? path.resourceValues(forKeys: [.isRegularFileKey]))?.isRegularFile == true
        }.count
    }

    private func subject(
        of upload: UploadReference,
        after bases: some Collection<UploadReference>,
        _ chain: StoreChain,
        salt: [UInt8]
    ) -> TransferJournal.Subject {
        TransferJournal.Subject(
            epoch: assembler.seal.key?.epoch,
            document: document,
            integrityKey: integrityKey,
            client: chain.head.name.client.rawValue,
            upload: upload,
            bases: Array(bases),
            store: store.path,
            salt: salt
        )
    }

    /// Downloads the files of a chain after the first `arrived` ones, and applies the deltas.
    ///
    /// Sets `isResumed` if a file begins with chunks of an earlier download.
    private func fetch(
        _ chain: StoreChain,
        at wholeURL: URL,
        after arrived: Int,
        _ noted: TransferJournal.Contents?,
        _ isResumed: inout Bool
    ) async throws {
        for (index, manifest) in chain.manifests.enumerated() {
            guard index >= arrived else {
                assembler.progress.add(Int(manifest.store.storedSize))
                continue
            }
            let salt = manifest.store.seal?.salt ?? []
            let subject = subject(of: manifest.name.reference, after: chain.references.prefix(index), chain, salt: salt)
            let chunks = noted.flatMap { $0.subject == subject ? $0.chunks : nil } ?? []
            let url = index == 0 ? wholeURL : self.url(of: manifest)
            let pass = try await assembler.receive(manifest, at: url, after: chunks) {
                try journal.begin(subject, after: $0)
            }
            guard let pass else {
                isResumed = true
                continue
            }
            guard index == 0 else { continue }
            try await assembler.check(pass, of: manifest, at: url)
            if chain.deltas.isEmpty { return }
        }
        let subject = subject(of: chain.head.name.reference, after: chain.references, chain, salt: [])
        _ = try await context.blocking { try journal.begin(subject, after: [NotedChunk]()) }
        for (base, delta) in zip(chain.manifests, chain.deltas) {
            let content = try await RemoteContent.file(
                at: url(of: delta),
                executor: context.blockingExecutor
            )
            try await assembler.apply(content, of: delta, to: base, at: wholeURL)
        }
        try await assembler.check(chain.head, at: wholeURL)
    }
}
