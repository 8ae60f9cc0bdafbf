import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP

extension WebDAVBackend {
    private static let propertiesBody = """
        <?xml version="1.0" encoding="utf-8"?>
        <propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/></prop></propfind>
        """

    /// Returns the properties of an item, and with depth 1 those of the items in it; `nil` if it doesn't exist.
    func properties(of path: RemotePath, depth: String) async throws -> [(path: RemotePath, item: RemoteItem)]? {
        if path != .root { anticipateShare() }
        let request = HTTPRequest(
            method: .PROPFIND,
            target: location.target(path),
            headers: [("Depth", depth)],
            body: .bytes(Array(Self.propertiesBody.utf8), contentType: "application/xml; charset=utf-8"),
            // Read completely, so that a list whose connection breaks is requested again.
            replyLimit: CheckedXML.maximumByteCount
        )
        let response = try await transport.send(request)
        guard response.status == 207 else {
            await response.discard()
            try await requireMissing(response, path)
            return nil
        }
        let answers = try answers(in: response, about: path)
        if let (_, resource) = answers.first(where: { $0.0 == path && $0.1.isUnknown }) {
            throw unknownProperties(resource, at: path)
        }
        if answers.contains(where: { $0.0 == path && $0.1.state == .missing }) {
            try await requireShare(without: path)
            return nil
        }
        // The kind of an item in the directory may be unknown, because the user has no right to see it. It's in the list nevertheless.
        let found = answers.filter { $0.1.state != .missing }.map { ($0.0, RemoteItem($0.1, at: $0.0)) }
        // An answer about other paths must not be mistaken for an answer that the path doesn't exist.
        guard found.contains(where: { $0.0 == path }) else {
            throw RemoteError(
                .unavailable,
                "\(identity) answers about other paths than “\(path)”. Check the share's URL.",
                path: path
            )
        }
        noteShare(exists: true)
        for (found, item) in found where item.kind == .directory {
            directories.insert(found, depth == "1" && found == path ? .explored : .seen)
        }
        return found
    }

    /// Checks that an answer without properties says that the path doesn't exist.
    private func requireMissing(_ response: HTTPResponse, _ path: RemotePath) async throws {
        switch response.status {
        case 404, 410:
            try await requireShare(without: path)
        case 400, 403, 405, 409:
            // Some servers answer like this if a component in the middle of the path is a file.
            if let parent = path.parent, parent != .root, try await status(of: parent)?.kind != .directory { return }
            throw failure(response, at: path)
        default:
            throw failure(response, at: path)
        }
    }

    /// Reads a list of properties: what it says of paths in this share.
    private func answers(
        in response: HTTPResponse,
        about path: RemotePath
    ) throws(RemoteError) -> [(RemotePath, Multistatus.Resource)] {
        do {
            return try Multistatus(response.bytes).resources.compactMap { resource in
                location.path(of: resource.reference).map { ($0, resource) }
            }
        } catch {
            throw RemoteError(
                .unavailable,
                "The answer of \(identity) about “\(path)” can't be read: \(error). Check that the URL names a WebDAV share.",
                path: path,
                cause: error
            )
        }
    }

    /// Checks that the share exists, although `path` doesn't.
    private func requireShare(without path: RemotePath) async throws {
        guard path != .root else {
            noteShare(exists: false)
            throw missingShare
        }
        try await requireShare()
    }

    private func unknownProperties(_ resource: Multistatus.Resource, at path: RemotePath) -> RemoteError {
        var reason = ""
        if case .failed(let status?) = resource.state { reason = " (HTTP status \(status))" }
        return RemoteError(
            .unavailable,
            "\(identity) can't tell what “\(path)” is\(reason). Check the user's permissions, and the server's log.",
            path: path
        )
    }
}

extension Multistatus.Resource {
    fileprivate var isUnknown: Bool {
        if case .failed = state { true } else { false }
    }
}

extension RemoteItem {
    init(_ resource: Multistatus.Resource, at path: RemotePath) {
        let isDirectory = resource.isCollection || resource.isUnknown && resource.reference.hasSuffix("/")
        self.init(
            name: path.lastComponent ?? "",
            kind: isDirectory ? .directory : .file,
            size: isDirectory ? 0 : resource.contentLength ?? 0,
            modified: resource.modified,
            // Apache marks a tag as weak for a second, although it's the same tag.
            tag: isDirectory
                ? nil : resource.entityTag.map { RemoteTag($0.hasPrefix("W/") ? String($0.dropFirst(2)) : $0) }
        )
    }
}
