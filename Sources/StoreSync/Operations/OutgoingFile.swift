import RemoteStorage
import SyncCryptography
import ThreadSupport

/// A file on its way to the remote: sealed while it's read, where the application is encrypted.
struct OutgoingFile: Sendable {
    let content: RemoteContent
    private let file: StoreManifest.File
    private let salt: [UInt8]?
    private let summary = Locked<ContentSummary?>(nil)

    init(
        _ plain: RemoteContent,
        _ file: StoreManifest.File,
        as role: ApplicationSeal.Role,
        _ seal: ApplicationSeal,
        on workers: SealingWorkers
    ) {
        self.file = file
        guard let key = seal.key else {
            content = plain
            salt = nil
            return
        }
        let sealing = key.sealing(plain, as: seal.context(role), on: workers) { [summary] pass in
            summary.withLock { $0 = pass }
        }
        salt = sealing.salt
        content = RemoteContent(length: nil) {
            var iterator = sealing.makeAsyncIterator()
            return { try await iterator.next() }
        }
    }

    /// What the manifest says of the file once it has been uploaded.
    func stored() throws -> StoreManifest.File {
        guard let salt else { return file }
        guard let summary = summary.withLock({ $0 }), summary.contentRoot == file.contentRoot else {
            throw StoreSyncError(
                .storeChanged,
                "\(file.file.rawValue) was sealed otherwise than it was copied. Nothing was published. Push again."
            )
        }
        var file = file
        file.storedSize = summary.sealedBytes
        file.salt = salt
        return file
    }
}
