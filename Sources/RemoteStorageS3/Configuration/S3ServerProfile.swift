import NIOHTTP1
import RemoteStorage

/// The known behavior of a kind of server.
///
/// Races of eight writers established it. An unrecognized server is assumed to honor only the conditions that a probe couldn't
/// disprove.
struct S3ServerProfile: Equatable, Sendable {
    /// Whether `If-None-Match: *` lets exactly one of several writers create a key, in one piece or in parts.
    var createsExclusively: Bool
    /// Whether `If-Match` lets exactly one of several writers replace a version.
    var keepsVersions: Bool
    /// Whether the server accepts parts of different sizes and lists them, so that another process can resume the upload.
    var keepsParts = false
    /// The checksums that files are sent with, and parts of an upload with checksums.
    ///
    /// Cloudflare R2 and older versions of Backblaze B2 refuse requests with `X-Amz-Checksum-Sha256`.
    var checks = S3Payload.Checks.all
    /// The checksums that the server verifies parts with if their upload was started without checksums.
    var checksOfKeptParts = S3Payload.Checks.md5

    /// The capabilities that a backend on this server has.
    var capabilities: RemoteCapabilities {
        var capabilities: RemoteCapabilities = [
            .atomicReplace, .consistentRead, .serverSideCopy, .rangedRead, .contentTags,
        ]
        if createsExclusively { capabilities.insert(.exclusiveCreate) }
        if keepsVersions { capabilities.insert(.conditionalReplace) }
        if keepsParts { capabilities.insert(.resumableWrite) }
        return capabilities
    }

    /// Amazon's own servers, which verify the signed digest.
    static let amazon = S3ServerProfile(
        createsExclusively: true,
        keepsVersions: true,
        keepsParts: true,
        checks: .checksum,
        checksOfKeptParts: []
    )

    /// SeaweedFS, which verifies checksums but not the signed digest.
    static let seaweedFS = S3ServerProfile(
        createsExclusively: true,
        keepsVersions: true,
        keepsParts: true,
        checks: .checksum,
        checksOfKeptParts: .checksum
    )

    /// Recognizes a server by a response.
    ///
    /// - Parameters:
    ///   - headers: The response's headers.
    ///   - isAmazon: Whether the response came from Amazon's own hosts: a proxy elsewhere may send the same name.
    /// - Returns: The server's profile; `nil` for an unknown server.
    static func recognize(_ headers: HTTPHeaders, isAmazon: Bool) -> S3ServerProfile? {
        let server = headers.first(name: "Server") ?? ""
        if isAmazon, server == "AmazonS3" { return amazon }
        // `SeaweedFS 8000GB 4.48`. Older versions don't support conditions.
        let words = server.split(separator: " ")
        if words.first == "SeaweedFS", let version = words.last?.split(separator: ".").map({ Int($0) ?? 0 }),
            !version.lexicographicallyPrecedes([4, 48])
        {
            return seaweedFS
        }
        return nil
    }
}
