import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP

/// How a COPY or MOVE names its destination.
enum DestinationForm: Sendable {
    /// By a URL with this client's scheme, host and port.
    case url
    /// By a path, which RFC 4918 allows, but RFC 2518 doesn't.
    case path
}

// The destination of a COPY or MOVE.
extension WebDAVBackend {
    /// The statuses of servers that take a URL for another server's: nginx's, others', and Apache's.
    private static let refusals: Set<Int> = [400, 403, 502]

    /// Sends a COPY or MOVE with a destination in the form that the server accepts, and discards the answer's body.
    ///
    /// The first form is a URL. If a proxy ends TLS, the server knows the share by another scheme, and may refuse that URL. The
    /// second form is a path. The form of the first success is used from then on.
    ///
    /// - Parameters:
    ///   - request: The request without its destination.
    ///   - source: The path that the request copies or moves.
    ///   - target: The destination as a path on the server.
    /// - Returns: The answer.
    /// - Throws: ``RemoteError``; `CancellationError`.
    func send(
        _ request: HTTPRequest,
        of source: RemotePath,
        withDestination target: String
    ) async throws -> HTTPResponse {
        if let form = destinationForm { return try await send(request, target, as: form) }
        var first = request
        // A gateway's failure, too. If it is one, the second request is retried.
        first.finalStatuses = [502]
        let response = try await send(first, target, as: .url)
        guard Self.refusals.contains(response.status) else { return response }
        if destinationForm == .url {
            // Meanwhile a concurrent request has shown that the server accepts URLs: 502 is a gateway's failure.
            guard response.status == 502 else { return response }
            guard request.mayBeRepeated else { throw failure(response, at: source) }
            return try await send(request, target, as: .url).repeated
        }
        // A gateway may have answered although the server has carried out the request: the next ones are repetitions.
        if !request.mayBeRepeated {
            var careful = request
            careful.mayBeRepeated = true
            careful.headers = request.headers.map { $0.0 == "Overwrite" ? ("Overwrite", "F") : $0 }
            let answer = try await send(careful, target, as: .path).repeated
            guard answer.status == 412 else { return Self.refusals.contains(answer.status) ? response : answer }
            // The destination may be the moved file, which some servers remove before they find that the source is missing.
            guard try await status(of: source) != nil else { return answer }
        }
        let answer = try await send(request, target, as: .path).repeated
        return Self.refusals.contains(answer.status) ? response.repeated : answer
    }

    private func send(_ request: HTTPRequest, _ target: String, as form: DestinationForm) async throws -> HTTPResponse {
        var request = request
        request.headers.append(("Destination", form == .url ? settings.origin + target : target))
        let response = try await transport.send(request)
        await response.discard()
        // The server has found the destination if it refuses to replace it.
        if response.isCompleteSuccess || response.status == 412 { destinationForm = form }
        return response
    }
}

extension HTTPResponse {
    /// This answer, as one to a request that may have been carried out before.
    fileprivate var repeated: HTTPResponse {
        var response = self
        response.wasRepeated = true
        return response
    }
}
