public import RemoteStorage

/// A removed client: the result of ``ClientRemovalOperation``.
public struct ClientRemoval: Sendable, Hashable {
    /// The client.
    public let client: RemoteIdentifier
    /// Warnings for the user, in full sentences.
    public let warnings: [String]
}
