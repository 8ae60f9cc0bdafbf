import ContentDigests
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// A file to be uploaded, which is digested, and sealed if the application is encrypted, while it's read.
struct OutgoingFile: Sendable {
    /// How a file is sent.
    struct Form: Sendable {
        /// How it's sealed; `nil` if the application isn't encrypted.
        var sealing: Sealing?
        /// The size in bytes of the blocks that are digested too; `nil` for none.
        var blockSize: Int?
        /// The chunks that were sent before: only what follows them is read.
        var prefix: NotedPrefix?
        /// Called with every chunk but the last before it's sent; must not block.
        var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?

        /// How its pages are digested.
        var pages: PageHash { sealing?.key.pageHash ?? .plain }
        /// The number of bytes before the first chunk.
        var startBytes: Int64 { sealing == nil ? 0 : Int64(EpochKey.sealedHeaderBytes) }
        /// The number of bytes that were sent before.
        var sentBytes: Int64 { prefix.map { startBytes + $0.storedBytes } ?? 0 }
    }

    /// How a file is sealed.
    struct Sealing: Sendable {
        let key: EpochKey
        let context: SealedContext
        let compression: StoreCompression
        /// The salt of the sealed file.
        var salt = EpochKey.newSalt()
    }

    /// What a whole pass has found.
    private struct Pass: Sendable {
        let digests: FileDigests
        let storedBytes: Int64
        let seal: StoreManifest.Seal?
    }

    /// What is sent.
    var content: RemoteContent
    private let pass: Locked<Pass?>

    /// The digests of its blocks, once it has been uploaded, if they were requested.
    var blocks: BlockDigests? { pass.withLock { $0?.digests.blocks } }

    /// Creates the upload of `plain`.
    ///
    /// - Parameters:
    ///   - plain: The file's content, or what follows the chunks that were sent before.
    ///   - form: How it's sent.
    ///   - workers: The workers that digest and seal.
    init(_ plain: RemoteContent, as form: Form, on workers: SealingWorkers) {
        let pass = Locked<Pass?>(nil)
        self.pass = pass
        guard let sealing = form.sealing else {
            var digested = DigestedContent(plain, form.pages, on: workers) { digests in
                pass.withLock { $0 = Pass(digests: digests, storedBytes: digests.byteCount, seal: nil) }
            }
            digested.prefix = form.prefix
            digested.onChunk = form.onChunk
            // A backend may not read an empty file.
            if plain.length == 0 {
                let digests = FileDigester(form.pages).finalize()
                pass.withLock { $0 = Pass(digests: digests, storedBytes: 0, seal: nil) }
            }
            content = RemoteContent(length: plain.length) { [digested] in
                var iterator = digested.makeAsyncIterator()
                return { try await iterator.next() }
            }
            return
        }
        var options = SealingOptions(compression: sealing.compression.ofSealing)
        options.salt = sealing.salt
        var sealed = sealing.key.sealing(plain, as: sealing.context, options: options, on: workers) { summary in
            guard let digests = summary.digests else { preconditionFailure("a pass that seals also digests") }
            let seal = StoreManifest.Seal(salt: sealing.salt, seals: summary.seals)
            pass.withLock { $0 = Pass(digests: digests, storedBytes: summary.sealedBytes, seal: seal) }
        }
        sealed.blockSize = form.blockSize
        sealed.prefix = form.prefix
        sealed.onChunk = form.onChunk
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
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if what was sent differs from the snapshot.
    func entry(
        for file: WholeStoreFile,
        size: Int64,
        root: ContentRoot?,
        delta: DeltaFile? = nil
    ) throws -> StoreManifest.File {
        guard let pass = pass.withLock({ $0 }), pass.digests.byteCount == delta?.byteCount ?? size,
            let found = delta == nil ? pass.digests.root : root, root == nil || root == found
        else {
            throw StoreSyncError(
                .storeChanged,
                "\(file.rawValue) changed between its snapshot and its upload. Nothing was published. Push again."
            )
        }
        return StoreManifest.File(
            file: file,
            size: size,
            storedSize: pass.storedBytes,
            contentRoot: found,
            seal: pass.seal
        )
    }
}
