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

    /// What a backend can claim of it.
    var capabilities: RemoteCapabilities {
        var capabilities: RemoteCapabilities = [.atomicReplace, .serverSideCopy, .rangedRead]
        if createsExclusively { capabilities.insert(.exclusiveCreate) }
        if keepsVersions { capabilities.insert(.conditionalReplace) }
        if keepsParts { capabilities.insert(.resumableWrite) }
        return capabilities
    }

    /// One that keeps conditions in a race, and parts.
    static let conditional = S3ServerProfile(createsExclusively: true, keepsVersions: true, keepsParts: true)

    /// Recognises a server by an answer.
    ///
    /// - Parameters:
    ///   - headers: The answer's.
    ///   - isAmazon: Whether it came from Amazon's own hosts: a proxy elsewhere may call itself the same.
    /// - Returns: The server; `nil` for one that isn't known.
    static func recognise(_ headers: HTTPHeaders, isAmazon: Bool) -> S3ServerProfile? {
        let server = headers.first(name: "Server") ?? ""
        if isAmazon, server == "AmazonS3" { return conditional }
        // `SeaweedFS 8000GB 4.48`; older ones knew no conditions.
        let words = server.split(separator: " ")
        if words.first == "SeaweedFS", let version = words.last?.split(separator: ".").map({ Int($0) ?? 0 }),
            !version.lexicographicallyPrecedes([4, 48])
        {
            return conditional
        }
        return nil
    }
}
