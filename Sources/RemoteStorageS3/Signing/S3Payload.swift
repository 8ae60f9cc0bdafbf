import ByteCoding
import Crypto
import Foundation

/// A request's body with its digests: every body is sent from memory, so all of it is signed.
struct S3Payload: Sendable {
    static let header = "X-Amz-Content-Sha256"

    let bytes: [UInt8]
    let sha256: [UInt8]
    private let md5: [UInt8]?
    let checks: Checks

    /// The checksums that a server verifies a file's bytes with, besides the signed digest.
    struct Checks: OptionSet, Sendable {
        let rawValue: UInt8
        /// `Content-MD5`.
        static let md5 = Checks(rawValue: 1)
        /// `X-Amz-Checksum-Sha256`.
        static let checksum = Checks(rawValue: 2)
        /// Both checksums, because servers differ in which they verify, and some refuse `X-Amz-Checksum-Sha256`.
        static let all: Checks = [.md5, .checksum]
    }

    /// Computes the digests of bytes.
    ///
    /// By default only ``Checks/md5``, which no known server refuses.
    init(_ bytes: [UInt8], _ checks: Checks = .md5) {
        self.bytes = bytes
        self.checks = checks
        sha256 = Array(SHA256.hash(data: bytes))
        md5 = checks.contains(.md5) ? Array(Insecure.MD5.hash(data: bytes)) : nil
    }

    /// The SHA-256 as S3 writes it in headers and in XML.
    var checksum: String { Data(sha256).base64EncodedString() }

    /// The headers of a file's body, with its checksums.
    var fileHeaders: [(String, String)] {
        headers + (checks.contains(.checksum) ? [("X-Amz-Checksum-Sha256", checksum)] : [])
            + (md5.map { [("Content-MD5", Data($0).base64EncodedString())] } ?? [])
    }

    /// The header with the signed digest.
    var headers: [(String, String)] { [(Self.header, sha256.hexadecimal)] }
}
