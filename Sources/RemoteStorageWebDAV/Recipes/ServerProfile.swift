import NIOHTTP1
import RemoteStorage

/// What is known of a kind of server, and so by which recipe files are written on it.
///
/// Found by racing eight writers, cutting off uploads, and reading meanwhile. A server that isn't recognised is taken for
/// one that does nothing right but what a probe couldn't disprove.
struct ServerProfile: Equatable, Sendable {
    var name: String
    /// Whether a PUT shows at once and whole, and not at all when it is cut off.
    var putsAtomically: Bool
    /// Whether it says how long a file is after it has opened it, not before.
    var readsConsistently = false
    /// Whether If-Match and If-None-Match hold in a race.
    var keepsConditions = false
    /// Whether of all who move a collection that isn't empty to one name, one wins.
    var movesExclusively: Bool

    /// What a backend can claim of it.
    var capabilities: RemoteCapabilities {
        var capabilities: RemoteCapabilities = .rangedRead
        // A file is created by moving a collection exclusively, where no condition holds.
        if movesExclusively { capabilities.formUnion([.exclusiveCreate, .exclusiveDirectoryMove]) }
        if keepsConditions { capabilities.formUnion([.exclusiveCreate, .conditionalReplace]) }
        if putsAtomically { capabilities.insert(.atomicReplace) }
        if readsConsistently { capabilities.insert(.consistentRead) }
        return capabilities
    }

    static let apache = ServerProfile(name: "Apache mod_dav", putsAtomically: true, movesExclusively: true)
    static let nginx = ServerProfile(
        name: "nginx",
        putsAtomically: true,
        readsConsistently: true,
        movesExclusively: true
    )
    static let lighttpd = ServerProfile(
        name: "lighttpd mod_webdav",
        putsAtomically: true,
        readsConsistently: true,
        keepsConditions: true,
        movesExclusively: true
    )
    static let wsgiDAV = ServerProfile(name: "WsgiDAV", putsAtomically: false, movesExclusively: true)

    /// A server that isn't known, after a probe.
    static func unknown(movesExclusively: Bool) -> ServerProfile {
        ServerProfile(name: "an unknown server", putsAtomically: false, movesExclusively: movesExclusively)
    }

    /// Recognises a server by its answer to OPTIONS.
    ///
    /// By more than its name: another one may stand behind an Apache or nginx that only passes requests on.
    static func recognise(_ headers: HTTPHeaders) -> ServerProfile? {
        let server = headers.first(name: "Server")?.lowercased() ?? ""
        let classes = Set(headers[canonicalForm: "DAV"].map { String($0) })
        if server.hasPrefix("apache"), classes.contains("<http://apache.org/dav/propset/fs/1>") { return .apache }
        if server.hasPrefix("lighttpd"), classes == ["1", "2", "3"] { return .lighttpd }
        if server.hasPrefix("nginx"), classes == ["2"] { return .nginx }
        if server.hasPrefix("wsgidav") { return .wsgiDAV }
        return nil
    }
}
