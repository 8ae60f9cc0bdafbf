import ContentDigests
import Foundation

/// What a pull does: it replaces a local store by an upload.
struct DownloadPlan: Sendable {
    let document: DocumentRegistration
    let key: DocumentKey
    /// The local store.
    let store: LocalStore
    /// The upload.
    let source: StoreSource
    /// The files to which the store's parts are downloaded; in the first, it's complete before it replaces the local store.
    let arrivals: [URL]
    var arrival: URL { arrivals[0] }
    /// How the upload was chosen.
    let choice: StoreChoice
    /// What this device had seen of the document before.
    let memory: RollbackMemory
    /// The uploads that this device knows, that are missing on the remote, and that the user gives up.
    let missing: [UploadName]

    /// This device's record of the store after its replacement by a file with this digest.
    func record(contentRoot root: ContentRoot?) -> StoreRecord {
        var record = StoreRecord(
            path: store.path,
            file: store.file,
            document: key,
            integrityKey: document.integrityKey,
            contentRoot: root?.description
        )
        if let name = source.manifest?.name {
            record.base = name
            record.contained = Lineage.contained(in: [name], choice.manifests)
        }
        return record
    }
}
