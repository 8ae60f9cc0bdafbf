public import RemoteStorage

/// A removed application: the result of ``ApplicationRemovalOperation``.
public struct ApplicationRemoval: Sendable, Hashable {
    /// The application.
    public let application: RemoteIdentifier
    /// The documents that were removed with it by this run.
    public let documents: [RemoteIdentifier]
    /// Warnings for the user, in full sentences.
    public internal(set) var warnings: [String] = []
}
