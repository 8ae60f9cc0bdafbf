import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

@testable import RemoteStorageWebDAV

/// A share whose files are replaced by moves.
struct ScriptedShare: Sendable {
    /// The sizes of files by their paths; −1 for a directory.
    let items = Locked<[String: Int64]>(["/dav": -1])
    /// The form of each move's destination, and whether it may be replaced.
    let moves = Locked<[String]>([])
    /// Whether a gateway reports a refusal after the server has carried out the move.
    var carriesOutRefused = false
    /// Whether a move that may replace the destination removes it before the source is looked for, as some servers do.
    var removesDestinationFirst = false
    /// Whether a proxy sends every MOVE twice, and returns the second answer.
    var isBehindRepeatingProxy = false
    /// The name of the server.
    var server = "WsgiDAV/4"
    /// The method whose requests a network's login page answers in the server's place.
    var interceptedMethod: HTTPMethod?
    /// The status of a refused destination, if the destination is refused.
    let refusal: @Sendable (_ destination: String) -> Int?

    init(_ refusal: @escaping @Sendable (_ destination: String) -> Int? = { _ in nil }) { self.refusal = refusal }

    func backend() throws -> WebDAVBackend { try ScriptedServer(answer).backend() }

    func answer(_ line: String, _ request: HTTPRequest) async throws -> HTTPResponse {
        let path = name(request.target)
        switch request.method {
        case interceptedMethod: return ScriptedServer.loginPage
        case .OPTIONS: return HTTPResponse(status: 200, headers: ["Server": server, "DAV": "1"], bytes: [])
        case .PROPFIND:
            let isList = request.headers.contains { $0 == ("Depth", "1") }
            let found = items.withLock { $0.filter { $0.key == path || isList && $0.key.hasPrefix("\(path)/") } }
            guard found[path] != nil else { return ScriptedServer.status(404) }
            return ScriptedServer.properties(of: found.map { ($0.key, $0.value < 0 ? nil : $0.value) })
        case .MKCOL:
            let parent = path.split(separator: "/").dropLast().map { "/\($0)" }.joined()
            guard items.withLock({ $0[parent] }) != nil else { return ScriptedServer.status(409) }
            items.withLock { $0[path] = -1 }
        case .PUT:
            guard case .content(let content, _) = request.body else { return ScriptedServer.status(400) }
            let size = Int64(try await content.bytes(upTo: 1000).count)
            items.withLock { $0[path] = size }
        case .DELETE: items.withLock { items in items = items.filter { !$0.key.hasPrefix(path) } }
        case .MOVE: return move(path, Dictionary(request.headers) { first, _ in first })
        case .COPY:
            guard let destination = request.headers.first(where: { $0.0 == "Destination" })?.1 else {
                return ScriptedServer.status(400)
            }
            items.withLock { $0[target(of: destination)] = $0[path] }
        default: return ScriptedServer.status(501)
        }
        return ScriptedServer.status(201)
    }

    private func move(_ path: String, _ headers: [String: String]) -> HTTPResponse {
        let destination = headers["Destination"] ?? ""
        let overwrites = headers["Overwrite"] ?? ""
        moves.withLock { $0.append("\(destination.hasPrefix("/") ? "path" : "URL") \(overwrites)") }
        let refused = refusal(destination)
        guard refused == nil || carriesOutRefused else { return ScriptedServer.status(refused ?? 400) }
        let status = items.withLock { items in
            let (target, replaces) = (target(of: destination), overwrites == "T")
            if isBehindRepeatingProxy { _ = carryOut(path, to: target, replaces: replaces, &items) }
            return carryOut(path, to: target, replaces: replaces, &items)
        }
        return ScriptedServer.status(refused ?? status)
    }

    private func carryOut(
        _ path: String,
        to target: String,
        replaces: Bool,
        _ items: inout [String: Int64]
    ) -> Int {
        if removesDestinationFirst {
            guard replaces || items[target] == nil else { return 412 }
            items[target] = nil
        }
        guard items[path] != nil else { return 404 }
        guard replaces || items[target] == nil else { return 412 }
        for (name, item) in items where name == path || name.hasPrefix("\(path)/") {
            items[name] = nil
            items[target + name.dropFirst(path.count)] = item
        }
        return 201
    }

    private func target(of destination: String) -> String {
        name(destination.replacing("https://share.example", with: ""))
    }

    private func name(_ target: String) -> String {
        target.hasSuffix("/") ? String(target.dropLast()) : target
    }
}
