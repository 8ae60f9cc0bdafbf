import RemoteStorage
import RemoteStorageHTTP

extension WebDAVBackend {
    /// Returns the error for an answer that isn't a success.
    func failure(_ response: HTTPResponse, at path: RemotePath) -> RemoteError {
        switch response.status {
        case 200...206:
            RemoteError(
                .unavailable,
                """
                The answer of \(identity) about “\(path)” (HTTP status \(response.status)) isn't a WebDAV server's. Check the \
                URL. A network's login page may be in the way: sign in, then try again.
                """,
                path: path
            )
        case 403:
            RemoteError(
                .notAllowed,
                "\(identity) doesn't allow this request for “\(path)” (HTTP status 403). Check the user's permissions.",
                path: path
            )
        case 404, 410: .notFound(path)
        case 413, 507:
            RemoteError(.noSpace, "\(identity) has no space for “\(path)”. Free some space there.", path: path)
        case 400 where path == .root:
            RemoteError(
                .unavailable,
                "\(identity) refuses requests for the share (HTTP status 400). Check the URL\(settings.origin.hasPrefix("http:") ? ": the server may require webdavs" : "").",
                path: path
            )
        case 400, 414, 431:
            RemoteError(
                .invalidPath,
                "\(identity) doesn't accept the name of “\(path)” (HTTP status \(response.status)). Choose another name.",
                path: path
            )
        case 405, 501:
            RemoteError(
                .unsupported,
                "\(identity) doesn't support this request for “\(path)” (HTTP status \(response.status)). Is it a WebDAV share?",
                path: path
            )
        case 500 where path.lastComponent.map { $0.utf8.count > 200 } ?? false:
            // Servers that first write to a temporary name, which is longer, don't report that the name is too long.
            RemoteError(
                .invalidPath,
                "The name of “\(path)” is too long for \(identity) (HTTP status 500). Choose a shorter name.",
                path: path
            )
        default:
            RemoteError(
                .unavailable,
                "\(identity) failed to answer a request for “\(path)” (HTTP status \(response.status)). Try again later.",
                path: path
            )
        }
    }
}
