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

/// A change set as it travels: bytes that were found to be well-formed.
package struct EncodedChangeSet: Hashable, ChangeSetSource {
    package let header: SyncChangeSet.Header
    package let encoded: [UInt8]
    /// The number of changes.
    package let changeCount: Int

    /// Reads a set, without keeping more than one of its changes in memory besides the bytes.
    ///
    /// - Parameter bytes: The set's bytes.
    /// - Throws: ``StoreChangesError`` with `corrupt` or `unsupportedFormat`.
    package init(decoding bytes: [UInt8]) throws {
        var reader = try ChangeSetReader(bytes: bytes)
        var count = 0
        while try reader.next() != nil { count += 1 }
        (header, encoded, changeCount) = (reader.header, bytes, count)
    }

    /// The digest that the client's next set names.
    package var digest: SetDigest { SetDigest(of: encoded) }
}

/// A set of this device, without its changes.
package struct OwnSet: Hashable, Sendable {
    /// The set.
    package let reference: SetReference
    /// The number of its changes.
    package let changeCount: Int

    init(_ reference: SetReference, changeCount: Int) {
        (self.reference, self.changeCount) = (reference, changeCount)
    }
}
