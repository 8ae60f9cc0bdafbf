import Foundation
import SyncCryptography

extension KeychainFile {
    private static let magic = Array("storesync items\0".utf8)
    private static let version: UInt16 = 1
    private static let tombstone: UInt8 = 0
    private static let item: UInt8 = 1

    /// Reads the opened content of a client's file.
    ///
    /// The encoding is canonical: everything is in order, so content that can be read is written again byte for byte.
    ///
    /// - Parameter content: The bytes, which may be untrusted.
    /// - Throws: ``KeychainError/Code/corrupt`` or ``KeychainError/Code/unsupportedFormat``.
    package init(_ content: [UInt8]) throws(KeychainError) {
        do {
            var reader = ByteReader(content)
            guard Array(try reader.bytes(Self.magic.count)) == Self.magic else {
                throw ByteReader.Malformed(reason: "it doesn't begin like such a file")
            }
            let version: UInt16 = try reader.integer()
            guard version == Self.version else {
                throw KeychainError(
                    .unsupportedFormat,
                    "A client's keychain file has version \(version) of its format, which this program doesn't know. Update this program."
                )
            }
            let replica = try reader.identifier()
            let publication = try reader.identifier()
            let seen = try reader.vector()
            self.init(replica: replica, publication: publication, seen: seen, entries: try Self.entries(&reader))
            try reader.end()
        } catch let error as KeychainError {
            throw error
        } catch {
            let reason = (error as? ByteReader.Malformed)?.reason ?? "\(error)"
            throw KeychainError(
                .corrupt,
                "A client's keychain file is malformed: \(reason). Let that client synchronize again."
            )
        }
    }

    private static func entries(_ reader: inout ByteReader) throws -> [ItemKey: ItemEntry] {
        let count = try reader.count(upTo: KeychainLimits.items + KeychainLimits.tombstones, of: "items and tombstones")
        var entries: [ItemKey: ItemEntry] = [:]
        var items: [(key: ItemKey, stamp: Stamp, secret: ArraySlice<UInt8>)] = []
        var last: ItemKey?
        for _ in 0..<count {
            let group = try reader.text(upTo: KeychainLimits.attributeBytes)
            let service = try reader.text(upTo: KeychainLimits.attributeBytes)
            let account = try reader.text(upTo: KeychainLimits.attributeBytes)
            let key = try ItemKey(service: service, account: account, accessGroup: group)
            if let last, key <= last { throw ByteReader.Malformed(reason: "its items are in disorder") }
            last = key
            let stamp = Stamp(counter: try reader.counter(), replica: try reader.identifier())
            switch try reader.integer(UInt8.self) {
            case tombstone: entries[key] = ItemEntry(stamp: stamp, secret: nil)
            case item:
                guard items.count < KeychainLimits.items else {
                    throw ByteReader.Malformed(reason: "it holds too many items")
                }
                items.append((key, stamp, try reader.secret(upTo: KeychainLimits.secretBytes)))
            default: throw ByteReader.Malformed(reason: "it holds something that is neither item nor tombstone")
            }
        }
        guard entries.count <= KeychainLimits.tombstones else {
            throw ByteReader.Malformed(reason: "it holds too many tombstones")
        }
        let secrets = SecretBytes.several(upTo: items.map(\.secret.count)) { index, buffer in
            buffer.copyBytes(from: items[index].secret)
            return buffer.count
        }
        for (item, secret) in zip(items, secrets) {
            entries[item.key] = ItemEntry(stamp: item.stamp, secret: secret)
        }
        return entries
    }

    /// Returns the content that ``init(_:)`` reads; the caller has to wipe it.
    func content() -> ByteWriter {
        let size = entries.reduce(64 + seen.count * 24) { size, entry in
            let key = entry.key
            let attributes = key.service.utf8.count + key.account.utf8.count + key.accessGroup.utf8.count
            return size + attributes + 64 + (entry.value.secret?.count ?? 0)
        }
        var writer = ByteWriter(capacity: size)
        writer.append(Self.magic)
        writer.append(Self.version)
        writer.append(replica)
        writer.append(publication)
        writer.append(seen)
        writer.append(UInt32(entries.count))
        for (key, entry) in entries.sorted(by: { $0.key < $1.key }) {
            writer.append(key.accessGroup)
            writer.append(key.service)
            writer.append(key.account)
            writer.append(entry.stamp.counter)
            writer.append(entry.stamp.replica)
            writer.append(entry.secret == nil ? Self.tombstone : Self.item)
            if let secret = entry.secret { writer.append(secret) }
        }
        return writer
    }
}
