import Crypto
import Foundation

/// Bytes that are sent, with their digests: everything is sent from memory, so all of it is signed.
struct S3Payload: Sendable {
    static let header = "X-Amz-Content-Sha256"

    let bytes: [UInt8]
    let sha256: [UInt8]
    private let md5: [UInt8]
    private let hasChecksum: Bool

    /// Digests bytes.
    ///
    /// - Parameters:
    ///   - bytes: What is sent.
    ///   - hasChecksum: Whether the server is to keep their SHA-256; it compares the MD5 in any case.
    init(_ bytes: [UInt8], hasChecksum: Bool = true) {
        self.bytes = bytes
        self.hasChecksum = hasChecksum
        sha256 = Array(SHA256.hash(data: bytes))
        md5 = Array(Insecure.MD5.hash(data: bytes))
    }

    /// The SHA-256 as S3 writes it in headers and in XML; `nil` where the server isn't to keep it.
    var checksum: String? { hasChecksum ? Data(sha256).base64EncodedString() : nil }

    /// What a server compares a file's bytes with: servers differ in which of these they look at.
    var fileHeaders: [(String, String)] {
        headers + [("Content-MD5", Data(md5).base64EncodedString())]
            + (checksum.map { [("X-Amz-Checksum-Sha256", $0)] } ?? [])
    }

    /// What is signed of the bytes.
    var headers: [(String, String)] { [(Self.header, hexadecimal(sha256))] }
}
