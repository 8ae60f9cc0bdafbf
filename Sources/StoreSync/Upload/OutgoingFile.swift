import ContentDigests
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// A file to be uploaded, which is sealed while it's read if the application is encrypted.
struct OutgoingFile: Sendable {
    /// How a file is sealed.
    struct Sealing: Sendable {
        let key: EpochKey
        let context: SealedContext
        let compression: StoreCompression
        /// The salt of the sealed file.
        var salt = EpochKey.newSalt()
        /// The size in bytes of the blocks that are digested too; `nil` for none.
        var blockSize: Int?
        /// The chunks that were sealed and sent before: only what follows them is read.
        var prefix: SealedPrefix?
        /// Called with every chunk but the last before it's sent; must not block.
        var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?
    }

    /// What is sent.
    var content: RemoteContent
    private let salt: [UInt8]?
    private let summary: Locked<ContentSummary?>

    /// The digests of its blocks, once it has been uploaded, if they were requested.
    var blocks: BlockDigests? { summary.withLock { $0?.digests?.blocks } }

    /// Creates the upload of `plain`.
    ///
    /// - Parameters:
    ///   - plain: The file's content, or what follows the chunks that were sent before.
    ///   - sealing: How it's sealed; `nil` if it isn't.
    ///   - workers: The workers that seal.
    init(_ plain: RemoteContent, _ sealing: Sealing?, on workers: SealingWorkers) {
        let summary = Locked<ContentSummary?>(nil)
        self.summary = summary
        salt = sealing?.salt
        guard let sealing else {
            content = plain
            return
        }
        var options = SealingOptions(compression: sealing.compression.ofSealing)
        options.salt = sealing.salt
        var sealed = sealing.key.sealing(plain, as: sealing.context, options: options, on: workers) { pass in
            summary.withLock { $0 = pass }
        }
        sealed.blockSize = sealing.blockSize
        sealed.prefix = sealing.prefix
        sealed.onChunk = sealing.onChunk
        content = RemoteContent(length: nil) { [sealed] in
            var iterator = sealed.makeAsyncIterator()
            return { try await iterator.next() }
        }
    }

    /// Returns the manifest's entry for the file after its upload.
    ///
    /// - Parameters:
    ///   - file: The file's role.
    ///   - size: Its size in bytes when the snapshot was taken.
    ///   - root: Its digest at that time, if it's known.
    ///   - delta: The delta that was uploaded in its place: it was compared with the file when it was written.
    /// - Returns: The manifest's entry.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if what was sealed differs from the snapshot.
    func entry(
        for file: WholeStoreFile,
        size: Int64,
        root: ContentRoot?,
        delta: DeltaFile? = nil
    ) throws -> StoreManifest.File {
        let summary = summary.withLock { $0 }
        guard let found = delta == nil ? summary?.digests?.root ?? root : root,
            summary.map({ $0.plainBytes == delta?.byteCount ?? size }) ?? (salt == nil),
            root == nil || root == found
        else {
            throw StoreSyncError(
                .storeChanged,
                "\(file.rawValue) changed between its snapshot and its sealing. Nothing was published. Push again."
            )
        }
        return StoreManifest.File(
            file: file,
            size: size,
            storedSize: summary?.sealedBytes ?? size,
            contentRoot: found,
            seal: summary.flatMap { summary in salt.map { StoreManifest.Seal(salt: $0, seals: summary.seals) } }
        )
    }
}
