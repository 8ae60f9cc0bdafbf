import ContentDigests
import DatabaseSupport
import Foundation

/// The content of an upload: one state of a store, and the applied sets that belong to it.
struct UploadContent: Sendable {
    /// The local store.
    let store: LocalStore
    /// The status of its files before it was opened; `nil` if it isn't to be trusted.
    let status: StoreStatus?
    /// Its state at one moment.
    let taken: TakenStore
    /// The directory for temporary files of this attempt.
    let directory: URL
    /// Copies of the applied sets, in that directory, once this device's memory of the store is settled.
    var appliedSets: [WholeStoreFile: StoreSnapshot] = [:]
    /// The store's digests, if they are known before the transfer.
    var digests: FileDigests?
    /// The delta that is sent in place of the store.
    var delta: DeltaFile?

    /// The store's digest, if it's known before the transfer.
    var contentRoot: ContentRoot? { digests?.root }

    /// What is sent as the store's file: the store, or the delta.
    var sent: TakenStore { delta?.taken ?? taken }

    /// The status of the store's files if it's the status of this state, so that the next push need not read the store.
    ///
    /// Blocks; asked when the state was read.
    var statusOfState: StoreStatus? {
        guard let status, status.byteCount == taken.byteCount, store.isUnchanged(since: status) else { return nil }
        return status
    }

    /// How many bytes are read to send all of it.
    var totalBytes: Int64 { appliedSets.values.reduce(sent.byteCount) { $0 + $1.byteCount } }
}
