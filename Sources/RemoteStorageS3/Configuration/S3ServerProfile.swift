import NIOHTTP1
import RemoteStorage

/// What is known of a kind of server.
///
/// Found by racing eight writers. A server that isn't recognised is taken for one that keeps no condition but what a probe
/// couldn't disprove.
struct S3ServerProfile: Equatable, Sendable {
    /// Whether `If-None-Match: *` lets one of all who create a key win, in one piece or in parts.
    var createsExclusively: Bool
    /// Whether `If-Match` lets one of all who replace a version win.
    var keepsVersions: Bool
    /// Whether the parts of a file may have different sizes, and are listed, so that another process can go on.
    var keepsParts = false
    /// What it compares the bytes of files with, and of parts that belong to none yet.
    var checks = S3Payload.Checks.all
    /// What it compares the bytes of parts with whose upload was begun without checksums.
    var checksOfKeptParts = S3Payload.Checks.md5

    /// What a backend can claim of it.
    var capabilities: RemoteCapabilities {
        var capabilities: RemoteCapabilities = [
            .atomicReplace, .consistentRead, .serverSideCopy, .rangedRead, .contentTags,
        ]
        if createsExclusively { capabilities.insert(.exclusiveCreate) }
        if keepsVersions { capabilities.insert(.conditionalReplace) }
        if keepsParts { capabilities.insert(.resumableWrite) }
        return capabilities
    }

    /// Amazon's own, which compares what is signed.
    static let amazon = S3ServerProfile(
        createsExclusively: true,
        keepsVersions: true,
        keepsParts: true,
        checks: .checksum,
        checksOfKeptParts: []
    )

    /// SeaweedFS, which compares checksums and not what is signed.
    static let seaweedFS = S3ServerProfile(
        createsExclusively: true,
        keepsVersions: true,
        keepsParts: true,
        checks: .checksum,
        checksOfKeptParts: .checksum
    )

    /// Recognises a server by an answer.
    ///
    /// - Parameters:
    ///   - headers: The answer's.
    ///   - isAmazon: Whether it came from Amazon's own hosts: a proxy elsewhere may call itself the same.
    /// - Returns: The server; `nil` for one that isn't known.
    static func recognise(_ headers: HTTPHeaders, isAmazon: Bool) -> S3ServerProfile? {
        let server = headers.first(name: "Server") ?? ""
        if isAmazon, server == "AmazonS3" { return amazon }
        // `SeaweedFS 8000GB 4.48`; older ones knew no conditions.
        let words = server.split(separator: " ")
        if words.first == "SeaweedFS", let version = words.last?.split(separator: ".").map({ Int($0) ?? 0 }),
            !version.lexicographicallyPrecedes([4, 48])
        {
            return seaweedFS
        }
        return nil
    }
}
