import Foundation
import RemoteStorage

/// An upload in parts, and which of them the server has.
struct PartedUpload: Sendable {
    /// A part as the server has it.
    struct Part: Sendable {
        var tag: String
        var sha256: [UInt8]
        /// The SHA-256 as S3 writes it.
        var checksum: String
    }

    /// How many parts a file may have.
    static let mostParts = 10_000

    let identifier: String
    private(set) var write: S3Backend.Write
    let partSize: Int
    var parts: [Int: Part] = [:]

    init(identifier: String, write: S3Backend.Write, partSize: Int) {
        self.identifier = identifier
        self.write = write
        self.partSize = partSize
    }

    /// The upload as another write goes on with it, whose file will carry the name of the first.
    func continued(by write: S3Backend.Write) -> PartedUpload {
        var upload = self
        upload.write = write
        upload.write.identifier = self.write.identifier
        return upload
    }

    /// What asks the server to make a file of the parts.
    func completion(_ count: Int) -> [UInt8] {
        let listed = (1...count).map { number in
            // The server would make a file without it.
            guard let part = parts[number] else { preconditionFailure("part \(number) of \(count) wasn't sent") }
            return """
                <Part><PartNumber>\(number)</PartNumber><ETag>\(escaped(part.tag))</ETag>\
                <ChecksumSHA256>\(part.checksum)</ChecksumSHA256></Part>
                """
        }
        return Array(
            """
            <CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">\
            \(listed.joined())</CompleteMultipartUpload>
            """.utf8
        )
    }

    private func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}
