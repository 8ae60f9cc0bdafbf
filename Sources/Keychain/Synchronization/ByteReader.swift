import ByteCoding
import Foundation
import SyncCryptography

/// Reads untrusted bytes field by field, and never beyond their end.
struct ByteReader {
    /// An error that says why bytes are malformed.
    struct Malformed: Error {
        let reason: String
    }

    private var fields: FieldReader

    init(_ bytes: [UInt8]) { fields = FieldReader(bytes[...]) }

    mutating func bytes(_ count: Int) throws(Malformed) -> ArraySlice<UInt8> {
        guard count <= fields.remaining else { throw Malformed(reason: "it ends too early") }
        return fields.slice(count)
    }

    /// Reads a number, the least significant byte first.
    mutating func integer<Integer: FixedWidthInteger>(_: Integer.Type = Integer.self) throws(Malformed) -> Integer {
        Integer(littleEndianBytes: try bytes(Integer.bitWidth / 8))
    }

    /// Reads a count, which isn't trusted: the bytes may hold fewer elements, so don't reserve memory for it.
    mutating func count(upTo limit: Int, of name: String) throws(Malformed) -> Int {
        let count = Int(try integer(UInt32.self))
        guard count <= limit else { throw Malformed(reason: "it counts \(count) \(name)") }
        return count
    }

    mutating func identifier() throws(Malformed) -> UUID {
        UUID(bytes: try bytes(16))
    }

    /// Reads a counter of a stamp.
    mutating func counter(from least: UInt64 = 1) throws(Malformed) -> UInt64 {
        let counter: UInt64 = try integer()
        guard counter >= least, counter < ReplicaClock.end else { throw Malformed(reason: "a counter is out of range") }
        return counter
    }

    mutating func text(upTo limit: Int) throws(Malformed) -> String {
        let count = try count(upTo: limit, of: "bytes of an attribute")
        guard let text = String(validating: try bytes(count), as: UTF8.self) else {
            throw Malformed(reason: "an attribute isn't UTF-8")
        }
        return text
    }

    mutating func secret(upTo limit: Int) throws(Malformed) -> ArraySlice<UInt8> {
        try bytes(try count(upTo: limit, of: "bytes of a secret"))
    }

    /// Reads a vector, in the order of its identifiers.
    mutating func vector() throws(Malformed) -> [UUID: UInt64] {
        let count = try count(upTo: KeychainFile.maximumReplicas, of: "replicas")
        var vector: [UUID: UInt64] = [:]
        var last: UUID?
        for _ in 0..<count {
            let replica = try identifier()
            if let last, replica <= last { throw Malformed(reason: "its replicas are in disorder") }
            last = replica
            vector[replica] = try counter()
        }
        return vector
    }

    func end() throws(Malformed) {
        guard fields.remaining == 0 else { throw Malformed(reason: "bytes follow after its end") }
    }
}

/// Writes the fields that ``ByteReader`` reads.
struct ByteWriter {
    private(set) var bytes: [UInt8]

    /// Reserves `capacity` bytes, since growing the array would leave a copy of the bytes in memory.
    init(capacity: Int) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    mutating func append(_ more: some Sequence<UInt8>) { bytes += more }

    mutating func append(_ number: some FixedWidthInteger) { bytes += number.littleEndianBytes }

    mutating func append(_ identifier: UUID) { bytes += identifier.bytes }

    mutating func append(_ text: String) {
        append(UInt32(text.utf8.count))
        bytes += text.utf8
    }

    mutating func append(_ secret: SecretBytes) {
        append(UInt32(secret.count))
        secret.withBytes { bytes += $0 }
    }

    mutating func append(_ vector: [UUID: UInt64]) {
        append(UInt32(vector.count))
        for (replica, counter) in vector.sorted(by: { $0.key < $1.key }) {
            append(replica)
            append(counter)
        }
    }

    /// Overwrites the written bytes.
    mutating func wipe() { bytes.wipe() }
}
