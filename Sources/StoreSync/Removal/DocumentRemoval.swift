public import RemoteStorage

/// A removed document: the result of ``DocumentRemovalOperation``.
public struct DocumentRemoval: Sendable, Hashable {
    /// The document.
    public let document: RemoteIdentifier
    /// Warnings for the user, in full sentences.
    public internal(set) var warnings: [String] = []
}
