import Foundation
import SyncCryptography

extension ReplicaClock {
    /// The maximum size of an encoded clock, in bytes.
    static let maximumBytes = 64 + KeychainFile.maximumReplicas * 24 + 64 * 16

    /// Reads an encoded clock, as ``content`` writes it.
    init(_ content: [UInt8]) throws(ByteReader.Malformed) {
        var reader = ByteReader(content)
        self.init(
            replica: try reader.identifier(),
            counter: try reader.counter(from: 0),
            published: try reader.counter(from: 0),
            version: try reader.counter(from: 0),
            seen: try reader.vector(),
            publications: try Self.publications(&reader)
        )
        try reader.end()
    }

    private static func publications(_ reader: inout ByteReader) throws(ByteReader.Malformed) -> [UUID] {
        let count = try reader.count(upTo: rememberedPublications, of: "publications")
        var publications: [UUID] = []
        for _ in 0..<count { publications.append(try reader.identifier()) }
        return publications
    }

    /// The encoded clock, for a keychain's own file.
    var content: [UInt8] {
        var writer = ByteWriter(capacity: 64)
        writer.append(replica)
        writer.append(counter)
        writer.append(published)
        writer.append(version)
        writer.append(seen)
        writer.append(UInt32(publications.count))
        for publication in publications { writer.append(publication) }
        return writer.bytes
    }
}
