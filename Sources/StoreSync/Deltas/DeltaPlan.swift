import ContentDigests
import FileSupport
import Foundation
import Operations
import SystemPackage

/// How a store is pushed as a delta.
struct DeltaPlan: Sendable {
    /// The uploads that the delta builds on, the whole copy first.
    let bases: [UploadReference]
    private let header: DeltaHeader
    private let runs: [Range<Int64>]
    private let digests: BlockDigests
    /// How many bytes the delta has before it's sealed.
    let byteCount: Int64

    /// Creates a plan from the differences between a store and a base, or returns `nil` if a whole copy is better.
    ///
    /// - Parameters:
    ///   - digests: The digests of the store.
    ///   - base: The push that the delta can build on.
    init?(_ digests: BlockDigests, on base: DeltaBase) {
        let former = base.blocks.digests
        guard former.blockSize == digests.blockSize else { return nil }
        let whole = base.chain.whole.store
        header = DeltaHeader(
            blockSize: Int64(digests.blockSize),
            baseSize: former.byteCount,
            size: digests.byteCount
        )
        runs = digests.blocksChanged(since: former)
        let deltas = base.chain.deltas.map(\.store.storedSize)
        byteCount = header.byteCount(of: runs)
        guard
            DeltaPolicy.allows(
                byteCount,
                of: digests.byteCount,
                on: (whole.size, whole.storedSize),
                after: deltas
            )
        else { return nil }
        bases = base.chain.references
        self.digests = digests
    }

    /// Writes the delta into a file of the temporary directory, and releases the store, because a push may take long.
    ///
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if the store has changed since it was digested; `cannotWrite`.
    func write(from content: UploadContent, _ context: OperationContext) async throws -> DeltaFile {
        guard let root = content.contentRoot else { preconditionFailure("a delta is planned with the store's digests") }
        let (store, pages) = (content.taken, content.store.pages)
        let url = content.directory.appending(path: DocumentHierarchy.deltaName)
        try await context.blocking {
            let file = try LocalFile.writing(url.path) { () throws(Errno) in try OpenFile(creating: url.path) }
            var writer = DeltaWriter(header, runs: runs)
            while let piece = try writer.next(reading: { try read(store, pages, at: $0, $1) }) {
                try Task.checkCancellation()
                try LocalFile.writing(url.path) { () throws(Errno) in try file.write(piece) }
            }
        }
        try await store.release(having: root, on: context.blockingExecutor)
        return DeltaFile(url: url, byteCount: byteCount, bases: bases)
    }

    private func read(_ store: TakenStore, _ pages: PageHash, at offset: Int64, _ count: Int) throws -> [UInt8] {
        let bytes = try store.read(at: offset, upTo: count)
        guard bytes.count == count, digests.match(bytes, at: offset, by: pages) else {
            throw StoreSyncError(
                .storeChanged,
                "The store was changed after it was compared with the last push. Nothing was published. Push again."
            )
        }
        return bytes
    }
}

/// A delta in the temporary directory, ready to be pushed.
struct DeltaFile: Sendable {
    let url: URL
    /// How many bytes it has.
    let byteCount: Int64
    /// The uploads that the delta builds on, the whole copy first.
    let bases: [UploadReference]

    /// The delta in the form of a store, which the upload reads instead of the local store.
    var taken: TakenStore { .copied(StoreSnapshot(url: url, byteCount: byteCount, .plain, knownRoot: nil)) }
}
