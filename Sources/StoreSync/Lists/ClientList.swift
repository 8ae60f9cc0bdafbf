public import Foundation
public import RemoteStorage

/// The clients of an application or of one of its documents: the result of ``ClientListOperation``.
public struct ClientList: Sendable, Hashable {
    /// A registered client.
    public struct Client: Sendable, Hashable {
        /// The client's identifier.
        public let client: RemoteIdentifier
        /// The human-readable description of the device.
        public let description: String
        /// The values that were saved with it when it registered first.
        public let userInfo: [String: PropertyListValue]
        /// The documents that it's registered with; in the list of a document's clients, only that document.
        public let documents: [RemoteIdentifier]
        /// When it last pushed, pulled or synchronized one of these, by its own clock; `nil` if that isn't known.
        ///
        /// A device that synchronizes records notes the time at most every half hour.
        public let lastSync: Date?
    }

    /// The application.
    public let application: RemoteIdentifier
    /// The document whose clients are listed; `nil` for all clients of the application.
    public let document: RemoteIdentifier?
    /// The clients, by identifier.
    public let clients: [Client]
    /// The files that can't be read: they are still arriving, damaged or not authentic.
    public let unreadable: [ApplicationStatus.Unreadable]
}
