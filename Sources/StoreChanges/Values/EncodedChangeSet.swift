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
        var reader = try ChangeSetReader(bytes)
        var count = 0
        while try reader.next() != nil { count += 1 }
        (header, encoded, changeCount) = (reader.header, bytes, count)
    }

    /// The digest that the client's next set names.
    package var digest: SetDigest { SetDigest(of: encoded) }
}
