import ContentDigests
import RemoteStorage

/// A document on the remote, as one push found it.
struct UploadTarget: Sendable {
    /// The client as which this device pushes.
    let client: RemoteIdentifier
    /// The uploads on the remote.
    let published: PublishedStores
    /// The last push of this device, if all of it is on the remote and a delta may build on it.
    let base: DeltaBase?
    /// The uploads that this device knows, that are missing on the remote, and that the user gives up.
    let missing: [UploadName]
    /// The newest uploads that this device has opened or published.
    let opened: Set<UploadName>
    /// The last upload of this device, if its push was interrupted after the publication.
    let incomplete: UploadName?

    /// The delta to this device's last push; `nil` if a whole copy is better.
    func delta(to content: UploadContent) -> DeltaPlan? {
        let newest = published.manifests.map(\.name).filter { $0.client == client }.max()
        guard let base, base.name == newest, let blocks = content.digests?.blocks else { return nil }
        return DeltaPlan(blocks, on: base)
    }
}

/// An upload that equals a store, so that nothing is published.
struct EqualUpload: Sendable {
    let name: UploadName
    /// The manifest of an upload on the remote that holds it: of that upload if it's complete there, else of a head that includes it.
    let holder: StoreManifest
    /// The digests of the store's blocks, if they are known.
    var blocks: BlockDigests?
}

/// What a push does with one state of a store.
enum UploadDecision: Sendable {
    /// Nothing is sent: the state equals an upload.
    case nothing(EqualUpload, StoreRecord)
    /// The plan is carried out.
    case send(UploadPlan)
}

/// What a push sends and publishes, decided before the first byte is sent.
struct UploadPlan: Sendable {
    /// What is sent: a delta, or the whole store; read from the held store, or from a copy.
    let content: UploadContent
    /// The manifest, which gets its files when they have been sent.
    let manifest: StoreManifest
    /// The uploads that the store contains without this one.
    let contained: Set<UploadName>
    /// This device's record of the store, once it's published.
    let record: StoreRecord
    /// Whether the transfer can be resumed if it's interrupted.
    let isResumable: Bool
    /// The interrupted transfer that is resumed; `nil` for a new one.
    let interrupted: TransferJournal.Contents?
}
