public import RemoteStorage

/// What ``VacuumOperation`` did.
public struct Vacuum: Sendable, Hashable {
    /// The client that did it: this device.
    public let client: RemoteIdentifier
    /// Whether a baseline was written: a store with which a device begins that joins later.
    public let isBaselineWritten: Bool
    /// The size of the baseline's files on the remote, in bytes; 0 if none was written.
    public let baselineBytes: Int64
    /// How many files with edits of this device and of removed clients were removed.
    public let removedFiles: Int
    /// The size of the removed files, in bytes.
    public let removedBytes: Int64
    /// The clients that haven't seen edits that baselines contain: as long as they are registered, these edits are kept.
    public let keptFor: [RemoteIdentifier]
    /// Warnings for the user, in full sentences.
    public let warnings: [String]
}
