import Foundation
import RemoteStorage

/// An upload in parts, and which of them the server has.
struct PartedUpload: Sendable {
    /// A part as the server has it.
    struct Part: Sendable {
        var tag: String
        /// Its SHA-256; `nil` where a former attempt sent it.
        var sha256: [UInt8]?
        /// The SHA-256 as S3 writes it; `nil` where the server doesn't keep it.
        var checksum: String?
        /// How many bytes it has.
        var byteCount: Int64

        init(tag: String, _ payload: S3Payload, isListedWithChecksum: Bool = true) {
            (self.tag, sha256) = (tag, payload.sha256)
            checksum = isListedWithChecksum ? payload.checksum : nil
            byteCount = Int64(payload.bytes.count)
        }

        /// Creates a part that a former attempt sent.
        init(tag: String, byteCount: Int64) {
            (self.tag, self.byteCount) = (tag, byteCount)
        }
    }

    /// How many parts a file may have.
    static let mostParts = 10_000
    /// How many bytes a part may have.
    static let maximumPartSize: Int64 = 5 << 30

    let identifier: String
    private(set) var write: S3Backend.Write
    var partSize: Int
    var parts: [Int: Part] = [:]
    /// Where acknowledged parts are noted, so that another process resumes the upload; `nil` if none does.
    let receipts: (any WriteReceipts)?

    /// Whether the upload can be resumed after most failures, not only where the server can't be reached.
    var isKept: Bool { receipts != nil }

    init(identifier: String, write: S3Backend.Write, partSize: Int, receipts: (any WriteReceipts)? = nil) {
        self.identifier = identifier
        self.write = write
        self.partSize = partSize
        self.receipts = receipts
    }

    /// Whether what has arrived is of use after an error.
    func isOfUse(after error: any Error) -> Bool {
        isKept ? RemoteContentRest.canFollow(after: error) : (error as? RemoteError)?.code == .unavailable
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
            let checksum = part.checksum.map { "<ChecksumSHA256>\($0)</ChecksumSHA256>" } ?? ""
            return "<Part><PartNumber>\(number)</PartNumber><ETag>\(escaped(part.tag))</ETag>\(checksum)</Part>"
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
