import RemoteStorage
import SyncCryptography
import ThreadSupport

/// A file to be uploaded, which is sealed while it's read if the application is encrypted.
struct OutgoingFile: Sendable {
    let content: RemoteContent
    private let salt: [UInt8]?
    private let summary: Locked<ContentSummary?>

    /// The digests of its blocks, once it has been uploaded, if they were requested.
    var blocks: BlockDigests? { summary.withLock { $0?.blocks } }

    /// Creates the upload of `plain`; if it's sealed, blocks of `blockSize` bytes are digested too.
    init(
        _ plain: RemoteContent,
        as role: ApplicationSeal.Role,
        _ seal: ApplicationSeal,
        blockSize: Int?,
        on workers: SealingWorkers
    ) {
        guard let key = seal.key else {
            self.init(plain, salt: nil, Locked(nil))
            return
        }
        self.init(plain, as: seal.context(role), key, EpochKey.newSalt(), blockSize: blockSize, on: workers)
    }

    private init(_ content: RemoteContent, salt: [UInt8]?, _ summary: Locked<ContentSummary?>) {
        self.content = content
        self.salt = salt
        self.summary = summary
    }

    /// Creates the sealed upload of `plain`, after the chunks that were sealed and sent before.
    init(
        _ plain: RemoteContent,
        as context: SealedContext,
        _ key: EpochKey,
        _ salt: [UInt8],
        after prefix: ChunkPrefix? = nil,
        blockSize: Int?,
        on workers: SealingWorkers,
        onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)? = nil
    ) {
        let summary = Locked<ContentSummary?>(nil)
        var sealing = key.sealing(
            plain,
            as: context,
            options: SealingOptions(compression: .adaptive),
            salt: salt,
            on: workers
        ) { pass in
            summary.withLock { $0 = pass }
        }
        sealing.blockSize = blockSize
        sealing.prefix = prefix
        sealing.onChunk = onChunk
        let content = RemoteContent(length: nil) { [sealing] in
            var iterator = sealing.makeAsyncIterator()
            return { try await iterator.next() }
        }
        self.init(content, salt: salt, summary)
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
    func stored(
        as file: WholeStoreFile,
        _ size: Int64,
        _ root: ContentRoot?,
        _ delta: DeltaFile?
    ) throws -> StoreManifest.File {
        let summary = summary.withLock { $0 }
        guard let found = delta == nil ? summary?.contentRoot ?? root : root,
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
            salt: salt
        )
    }
}
