public import RemoteStorage

/// A document that this device is registered with: what ``DocumentRegistrationOperation`` results in.
public struct DocumentRegistration: Sendable, Hashable {
    /// The application that the document belongs to.
    public let application: ApplicationRegistration
    /// The document.
    public let document: RemoteIdentifier
    /// Tells this document from its successor under the same name.
    public let integrityKey: String
    /// Whether this registration made the document.
    public let didCreateDocument: Bool
    /// Whether stores of this document on this device must be replaced by a download before they can be pushed: they belong
    /// to a former document of that name, or this client was removed from the document meanwhile.
    public let mustReplaceLocalStore: Bool
    /// What people should know, in sentences.
    public let warnings: [String]

    /// What people should know of the application and the document.
    var allWarnings: [String] { application.warnings + warnings }
    var hierarchy: DocumentHierarchy { application.hierarchy.document(document) }
    var identity: DocumentIdentity { DocumentIdentity(document: document, integrityKey: integrityKey) }
}

/// What is to be registered.
public struct DocumentRegistrationRequest: Sendable {
    /// The document's identifier.
    public var document: RemoteIdentifier
    /// What people call the document, its original file name for example.
    public var description: String
    /// Anything to be saved with the document by the first registrant, and returned with lists of documents.
    public var userInfo: [String: PropertyListValue]
    /// Whether the document is made if it isn't there; the delegate is asked all the same.
    public var mayCreateDocument: Bool

    /// Creates a request.
    public init(
        document: RemoteIdentifier,
        description: String,
        userInfo: [String: PropertyListValue] = [:],
        mayCreateDocument: Bool = true
    ) {
        self.document = document
        self.description = description
        self.userInfo = userInfo
        self.mayCreateDocument = mayCreateDocument
    }
}

extension StoreSyncError {
    /// The info of a document that this device knows is missing.
    static let documentInfoMissing = StoreSyncError(
        .documentMissing,
        "It is still arriving, or was lost or hidden. Wait until everything has arrived; else restore it from a backup."
    )
    /// The info belongs to a document that this device doesn't expect there.
    static let documentInfoPutBack = StoreSyncError(
        .rolledBack,
        """
        It belongs to neither the document that this device knows nor its successor: a former one was put back, or the new one \
        is still arriving. Wait until everything has arrived; else restore the document from a backup.
        """
    )
}

extension ApplicationRegistration {
    /// What this device's memory of a document is kept under.
    func key(_ backend: any RemoteBackend, _ document: RemoteIdentifier) -> DocumentKey {
        DocumentKey(
            application: ApplicationKey(remote: backend.identity, application: application.rawValue),
            document: document.rawValue
        )
    }
}
