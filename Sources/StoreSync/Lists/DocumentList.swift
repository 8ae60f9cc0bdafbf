public import Foundation
public import RemoteStorage

/// The documents of an application: the result of ``DocumentListOperation``.
public struct DocumentList: Sendable, Hashable {
    /// A registered document.
    public struct Document: Sendable, Hashable {
        /// The document's identifier.
        public let document: RemoteIdentifier
        /// The human-readable description of the document, its original file name for example.
        public let description: String
        /// The values that its first registrant saved with it.
        public let userInfo: [String: PropertyListValue]
        /// The identifier of the client that created it; `nil` if that isn't known.
        public let originalDevice: String?
        /// The human-readable description of that device, as it was at that time.
        public let originalDeviceDescription: String
        /// The clients that are registered with it.
        public let clients: [RemoteIdentifier]
        /// When each client last pushed, pulled or synchronized it, by the client's clock, as far as that is known.
        ///
        /// A device that synchronizes records notes the time at most every half hour.
        public let lastSyncs: [RemoteIdentifier: Date]

        init(_ document: HierarchyReader.Document, lastSyncs: [RemoteIdentifier: Date]) {
            let info = document.info.value
            self.document = document.document
            description = info?.description ?? ""
            userInfo = info?.userInfo ?? [:]
            originalDevice = info.flatMap { $0.originalDevice.isEmpty ? nil : $0.originalDevice }
            originalDeviceDescription = info?.originalDeviceDescription ?? ""
            clients = document.clients
            self.lastSyncs = lastSyncs
        }
    }

    /// The application.
    public let application: RemoteIdentifier
    /// The documents, by identifier.
    public let documents: [Document]
    /// The files that can't be read: they are still arriving, damaged or not authentic.
    public let unreadable: [ApplicationStatus.Unreadable]
}
