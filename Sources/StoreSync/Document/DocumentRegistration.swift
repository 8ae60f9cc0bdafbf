import Foundation
public import RemoteStorage

/// A document that this device is registered with: the result of ``DocumentRegistrationOperation``.
public struct DocumentRegistration: Sendable, Hashable {
    /// The application that the document belongs to.
    public let application: ApplicationRegistration
    /// The document.
    public let document: RemoteIdentifier
    /// The key that distinguishes this document from a successor with the same name.
    public let integrityKey: String
    /// Whether this registration created the document.
    public let didCreateDocument: Bool
    /// Whether this device's stores of the document must be replaced by a download before they can be pushed.
    ///
    /// This is the case if they belong to a former document of that name, or if this client was removed from the
    /// document meanwhile.
    public let mustReplaceLocalStore: Bool
    /// Whether this client created the document.
    let isOwn: Bool
    /// Warnings for the user, in full sentences.
    public let warnings: [String]

    /// The warnings about the application and the document.
    var allWarnings: [String] { application.warnings + warnings }
    var hierarchy: DocumentHierarchy { application.hierarchy.document(document) }
    var identity: DocumentIdentity { DocumentIdentity(document: document, integrityKey: integrityKey) }
}

/// A request to register a document.
public struct DocumentRegistrationRequest: Sendable {
    /// The document's identifier.
    public var document: RemoteIdentifier
    /// The document's human-readable description, its original file name for example.
    public var description: String
    /// Any values that the first registrant saves with the document, and that lists of documents return; at most 1 MiB as a
    /// property list.
    public var userInfo: [String: PropertyListValue]
    /// Whether the document is created if it doesn't exist and the delegate agrees.
    public var mayCreateDocument: Bool
    /// The store that doesn't exist, and for which nothing is created therefore; errors name it.
    var missingStore: URL?

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

    /// The request that creates nothing if a store is missing.
    func withoutCreating(for missingStore: URL?) -> DocumentRegistrationRequest {
        var request = self
        request.missingStore = missingStore
        if missingStore != nil { request.mayCreateDocument = false }
        return request
    }
}

extension StoreSyncError {
    /// A store exists neither on this device nor on the remote; `absence` says as a clause what the remote lacks.
    static func nothingToSynchronize(_ store: URL, _ absence: String) -> StoreSyncError {
        StoreSyncError(
            .storeNotFound,
            "There is no store at \(store.path) on this device, and \(absence), so there is nothing to download either. Check the path and the names."
        )
    }

    /// A document was deleted, and something of it is left.
    static func removalInterrupted(_ document: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .documentDeleted,
            """
            \(document) was deleted, and its removal is in progress or was interrupted. Complete it with storesync remove \
            document \(document).
            """
        )
    }

    /// The info of a document that is known to this device is missing.
    static let documentInfoMissing = StoreSyncError(
        .documentMissing,
        """
        It is still arriving, or was lost or hidden. Wait until everything has arrived. If it stays missing, restore it from a \
        backup, or give the document up with storesync remove document on a device that has synchronized it.
        """
    )
    /// The info belongs to a document that this device doesn't expect.
    static let documentInfoPutBack = StoreSyncError(
        .rolledBack,
        """
        It belongs to neither the document that this device knows nor its successor: a former one was put back, the new one is \
        still arriving, or two devices created the document before the folder's files had arrived. Wait until everything has \
        arrived. If the error persists, restore the document from a backup, or this file from a conflict copy beside it.
        """
    )
}

extension ApplicationRegistration {
    /// The key of this device's memory of a document.
    func key(_ backend: any RemoteBackend, _ document: RemoteIdentifier) -> DocumentKey {
        DocumentKey(
            application: ApplicationKey(backend, application),
            document: document.rawValue
        )
    }
}
