/// A change set whose bytes can be had, wherever they are.
package protocol ChangeSetSource: Sendable {
    /// Everything but the changes.
    var header: SyncChangeSet.Header { get }
    /// The set's bytes.
    var encoded: [UInt8] { get throws }
    /// Reads the changes, too.
    func decoded() throws -> SyncChangeSet
}

extension ChangeSetSource {
    package func decoded() throws -> SyncChangeSet { try SyncChangeSet(decoding: encoded) }
}

extension SyncChangeSet: ChangeSetSource {
    package func decoded() -> SyncChangeSet { self }
}
