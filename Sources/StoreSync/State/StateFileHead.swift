import ByteCoding
import Foundation

/// How a state file begins: with its kind, and with what it's about.
struct StateFileHead {
    /// Identifies the kind of file.
    private let magic: [UInt8]
    private let version: UInt16

    private static let maximumSubjectBytes = 1 << 16

    /// Creates the head of a kind of file.
    init(_ magic: StaticString, version: UInt16) {
        self.magic = Array("\(magic)".utf8)
        self.version = version
    }

    private var fixedByteCount: Int { magic.count + 6 }

    /// The maximum length of a head, in bytes.
    var maximumBytes: Int { fixedByteCount + Self.maximumSubjectBytes }

    /// Returns the head of a file about `subject`.
    func encode(_ subject: some Encodable) throws -> [UInt8] {
        let encoded = Array(try JSONEncoder().encode(subject))
        return magic + version.littleEndianBytes + UInt32(encoded.count).littleEndianBytes + encoded
    }

    /// Reads what a file is about, and how many bytes its head has; `nil` if it doesn't begin with a head of this kind.
    func decode<Subject: Decodable>(
        _ type: Subject.Type,
        from bytes: ArraySlice<UInt8>
    ) -> (subject: Subject, byteCount: Int)? {
        guard bytes.count >= fixedByteCount else { return nil }
        var fields = FieldReader(bytes)
        guard fields.bytes(magic.count) == magic, fields.integer(UInt16.self) == version else { return nil }
        let subjectBytes = Int(fields.integer(UInt32.self))
        guard subjectBytes <= min(fields.remaining, Self.maximumSubjectBytes),
            let subject = try? JSONDecoder().decode(type, from: Data(fields.bytes(subjectBytes)))
        else { return nil }
        return (subject, fixedByteCount + subjectBytes)
    }
}
