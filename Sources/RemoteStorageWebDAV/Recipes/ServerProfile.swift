import NIOHTTP1
import RemoteStorage

/// The known behavior of a kind of server, which decides the recipe for writing files.
///
/// Found by racing eight writers, interrupting uploads, and reading at the same time. A server that isn't recognized is
/// assumed to guarantee nothing, except what a probe couldn't disprove.
struct ServerProfile: Equatable, Sendable {
    /// Whether a PUT becomes visible in one step, and not at all when it is interrupted.
    var putsAtomically: Bool
    /// Whether the server reads a file's length after it has opened the file, not before.
    var readsConsistently = false
    /// Whether If-Match and If-None-Match hold in a race.
    var keepsConditions = false
    /// Whether only one of several concurrent moves of a non-empty collection to one name succeeds.
    var movesExclusively: Bool

    /// The capabilities that a backend can claim for the server.
    var capabilities: RemoteCapabilities {
        var capabilities: RemoteCapabilities = .rangedRead
        // Without conditions that hold, a file is created by an exclusive move of a collection.
        if movesExclusively { capabilities.formUnion([.exclusiveCreate, .exclusiveDirectoryMove]) }
        if keepsConditions { capabilities.formUnion([.exclusiveCreate, .conditionalReplace]) }
        if putsAtomically { capabilities.insert(.atomicReplace) }
        if readsConsistently { capabilities.insert(.consistentRead) }
        return capabilities
    }

    static let apache = ServerProfile(putsAtomically: true, movesExclusively: true)
    static let nginx = ServerProfile(putsAtomically: true, readsConsistently: true, movesExclusively: true)
    static let lighttpd = ServerProfile(
        putsAtomically: true,
        readsConsistently: true,
        keepsConditions: true,
        movesExclusively: true
    )
    static let wsgiDAV = ServerProfile(putsAtomically: false, movesExclusively: true)

    /// Returns the profile of an unknown server, after a probe.
    static func unknown(movesExclusively: Bool) -> ServerProfile {
        ServerProfile(putsAtomically: false, movesExclusively: movesExclusively)
    }

    /// Recognizes a server by its answer to OPTIONS.
    ///
    /// The name isn't enough: an Apache or nginx may only pass requests on to another server.
    static func recognize(_ headers: HTTPHeaders) -> ServerProfile? {
        let server = headers.first(name: "Server")?.lowercased() ?? ""
        let classes = Set(headers[canonicalForm: "DAV"].map { String($0) })
        if server.hasPrefix("apache"), classes.contains("<http://apache.org/dav/propset/fs/1>") { return .apache }
        if server.hasPrefix("lighttpd"), classes == ["1", "2", "3"] { return .lighttpd }
        if server.hasPrefix("nginx"), classes == ["2"] { return .nginx }
        if server.hasPrefix("wsgidav") { return .wsgiDAV }
        return nil
    }
}
