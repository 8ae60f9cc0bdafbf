import RemoteStorage

/// A multipart upload, and the parts of it that the server has.
struct PartedUpload: Sendable {
    /// A part as the server has it.
    struct Part: Sendable {
        var tag: String
        /// Its SHA-256; `nil` if an earlier attempt sent it.
        var sha256: [UInt8]?
        /// The SHA-256 as S3 writes it; `nil` if the server doesn't keep it.
        var checksum: String?
        /// Its number of bytes.
        var byteCount: Int64

        init(tag: String, _ payload: S3Payload, isOfKeptUpload: Bool = false) {
            (self.tag, sha256) = (tag, payload.sha256)
            checksum = payload.checks.contains(.checksum) && !isOfKeptUpload ? payload.checksum : nil
            byteCount = Int64(payload.bytes.count)
        }

        /// Creates a part that an earlier attempt sent.
        init(tag: String, byteCount: Int64) {
            (self.tag, self.byteCount) = (tag, byteCount)
        }
    }

    /// The maximum number of parts of a file.
    static let maximumParts = 10_000
    /// The maximum number of bytes of a part.
    static let maximumPartSize: Int64 = 5 << 30
    /// The number of bytes up to which parts grow, because each part is sent from memory.
    static let maximumGrownSize = 256 << 20

    /// Returns the size of a part of a file whose length isn't known.
    ///
    /// From the middle of the numbers on, it doubles every 500 parts, up to ``maximumGrownSize``: 10,000 parts, of which the
    /// first has 5 MiB, hold 800 GiB. Up to the middle, all sizes are equal, because some servers require that.
    static func size(ofPart number: Int, from first: Int) -> Int {
        let doublings = max(0, number - maximumParts / 2 + 499) / 500
        return max(first, min(first << doublings, maximumGrownSize))
    }

    let identifier: String
    private(set) var write: S3Backend.Write
    var partSize: Int
    var parts: [Int: Part] = [:]
    /// The record of acknowledged parts, with which another process can resume the upload; `nil` if none can.
    let receipts: (any WriteReceipts)?

    /// The body of a former request to complete the upload, which the server may have carried out; `nil` before the first.
    var requestedCompletion: [UInt8]?
    /// Whether the server couldn't combine the parts, so that the upload was aborted.
    var isAborted = false

    /// Whether the upload can be resumed after most failures, not only after lost connections.
    var isKept: Bool { receipts != nil }

    init(identifier: String, write: S3Backend.Write, partSize: Int, receipts: (any WriteReceipts)? = nil) {
        self.identifier = identifier
        self.write = write
        self.partSize = partSize
        self.receipts = receipts
    }

    /// Whether the parts that have arrived are of use after an error.
    func isOfUse(after error: any Error) -> Bool {
        if isAborted { return false }
        return isKept ? RemoteContentRest.canFollow(after: error) : (error as? RemoteError)?.code == .unavailable
    }

    /// Returns the upload as another write continues it, with the identifier of the first write.
    func continued(by write: S3Backend.Write) -> PartedUpload {
        var upload = self
        upload.write = write
        upload.write.identifier = self.write.identifier
        return upload
    }

    /// The body of the request that completes the upload.
    func completion(_ count: Int) -> [UInt8] {
        let listed = (1...count).map { number in
            // The server would create the file without a missing part.
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
