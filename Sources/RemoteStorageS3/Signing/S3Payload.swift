import Crypto
import Foundation

/// Bytes that are sent, with their digests: everything is sent from memory, so all of it is signed.
struct S3Payload: Sendable {
    static let header = "X-Amz-Content-Sha256"

    let bytes: [UInt8]
    let sha256: [UInt8]
    private let md5: [UInt8]

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        sha256 = Array(SHA256.hash(data: bytes))
        md5 = Array(Insecure.MD5.hash(data: bytes))
    }

    /// The SHA-256 as S3 writes it in headers and in XML.
    var checksum: String { Data(sha256).base64EncodedString() }

    /// What a server compares a file's bytes with: servers differ in which of these they look at.
    var fileHeaders: [(String, String)] {
        headers + [("X-Amz-Checksum-Sha256", checksum), ("Content-MD5", Data(md5).base64EncodedString())]
    }

    /// What is signed of the bytes.
    var headers: [(String, String)] { [(Self.header, hexadecimal(sha256))] }
}
