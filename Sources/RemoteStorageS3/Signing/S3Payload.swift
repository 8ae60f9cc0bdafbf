import Crypto
import Foundation

/// Bytes that are sent, with their digests: everything is sent from memory, so all of it is signed.
struct S3Payload: Sendable {
    static let header = "X-Amz-Content-Sha256"

    let bytes: [UInt8]
    let sha256: [UInt8]
    private let md5: [UInt8]?
    private let checks: Checks

    /// What a server is sent to compare a file's bytes with, besides the digest that is signed.
    struct Checks: OptionSet, Sendable {
        let rawValue: UInt8
        /// `Content-MD5`.
        static let md5 = Checks(rawValue: 1)
        /// `X-Amz-Checksum-Sha256`.
        static let checksum = Checks(rawValue: 2)
        /// Servers differ in what they look at.
        static let all: Checks = [.md5, .checksum]
    }

    /// Digests bytes.
    init(_ bytes: [UInt8], _ checks: Checks = .all) {
        self.bytes = bytes
        self.checks = checks
        sha256 = Array(SHA256.hash(data: bytes))
        md5 = checks.contains(.md5) ? Array(Insecure.MD5.hash(data: bytes)) : nil
    }

    /// The SHA-256 as S3 writes it in headers and in XML.
    var checksum: String { Data(sha256).base64EncodedString() }

    /// What a server compares a file's bytes with.
    var fileHeaders: [(String, String)] {
        headers + (checks.contains(.checksum) ? [("X-Amz-Checksum-Sha256", checksum)] : [])
            + (md5.map { [("Content-MD5", Data($0).base64EncodedString())] } ?? [])
    }

    /// What is signed of the bytes.
    var headers: [(String, String)] { [(Self.header, hexadecimal(sha256))] }
}
