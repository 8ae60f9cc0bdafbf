import RemoteStorage
import SyncCryptography
import ThreadSupport

/// A file on its way to the remote: sealed while it's read, where the application is encrypted.
struct OutgoingFile: Sendable {
    let content: RemoteContent
    private let salt: [UInt8]?
    private let summary = Locked<ContentSummary?>(nil)

    init(_ plain: RemoteContent, as role: ApplicationSeal.Role, _ seal: ApplicationSeal, on workers: SealingWorkers) {
        guard let key = seal.key else {
            content = plain
            salt = nil
            return
        }
        let sealing = key.sealing(
            plain,
            as: seal.context(role),
            options: SealingOptions(compression: .adaptive),
            on: workers
        ) { [summary] pass in
            summary.withLock { $0 = pass }
        }
        salt = sealing.salt
        content = RemoteContent(length: nil) {
            var iterator = sealing.makeAsyncIterator()
            return { try await iterator.next() }
        }
    }

    /// What the manifest says of the file once it has been uploaded.
    ///
    /// - Parameters:
    ///   - file: Which file it is.
    ///   - size: How many bytes it had when it was taken.
    ///   - root: What its digest was then, if that was found out.
    /// - Returns: What the manifest lists.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if something else was sealed.
    func stored(as file: WholeStoreFile, _ size: Int64, _ root: ContentRoot?) throws -> StoreManifest.File {
        let summary = summary.withLock { $0 }
        guard let found = summary?.contentRoot ?? root, summary.map({ $0.plainBytes == size }) ?? (salt == nil),
            root == nil || root == found
        else {
            throw StoreSyncError(
                .storeChanged,
                "\(file.rawValue) was sealed otherwise than it was taken. Nothing was published. Push again."
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
