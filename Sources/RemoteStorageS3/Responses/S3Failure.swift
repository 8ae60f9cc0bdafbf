import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP

/// The failure that an S3 response reports.
struct S3Failure: Sendable {
    let status: Int
    /// The error's name, such as `NoSuchKey`; `nil` if the response has none, as responses to HEAD.
    let code: String?
    /// The bucket's region, if the server names it.
    let region: String?
    /// The server that the request was redirected to: its host, or its origin as `https://host:port`.
    let server: String?
    /// The difference between this device's clock and the server's, in seconds.
    let clockDifference: Int?

    /// Reads a response; `nil` for a success.
    ///
    /// S3 starts the responses to some requests with a success status, and ends them with an error.
    init?(_ response: HTTPResponse, now: Date = Date()) {
        // A part of a file may contain anything, even an error document.
        guard response.status != 206 || !response.headers.contains(name: "Content-Range") else { return nil }
        // Searched for before parsing: lists are long, and names in them can't contain an unescaped bracket.
        let isError = Data(response.bytes).range(of: Data("<Error".utf8)) != nil
        let element = isError ? try? S3Element(response.bytes, named: "Error") : nil
        guard !response.isSuccess || element != nil else { return nil }
        status = response.status
        code = element?["Code"]
        region = element?["Region"] ?? response.headers.first(name: "x-amz-bucket-region")
        server = element?["Endpoint"] ?? response.headers.first(name: "Location").flatMap { URL(string: $0)?.origin }
        clockDifference = response.headers.date("Date").map { Int(now.timeIntervalSince($0)) }
    }

    /// Whether the same request may succeed later.
    static func isTransient(_ response: HTTPResponse) -> Bool {
        guard let failure = S3Failure(response) else { return false }
        switch failure.status {
        case 408, 425, 429, 500, 502, 503, 504: return true
        default:
            // A conflict means that another request was in progress at the same time.
            return [
                "InternalError", "SlowDown", "ServiceUnavailable", "Throttling", "RequestTimeout", "OperationAborted",
                "ConditionalRequestConflict",
            ].contains(failure.code)
        }
    }

    /// Returns an error that explains the failure to the user.
    ///
    /// - Parameters:
    ///   - path: The path that the request was for.
    ///   - location: The bucket's location.
    /// - Returns: The error, with a remedy.
    func error(at path: RemotePath, in location: S3Location) -> RemoteError {
        let place = location.identity
        let named = code ?? "HTTP status \(status)"
        func error(_ code: RemoteError.Code, _ words: String) -> RemoteError { RemoteError(code, words, path: path) }
        switch (code, status) {
        case ("RequestTimeTooSkewed", _), ("RequestExpired", _):
            return error(
                .unauthorized,
                "\(place) refuses requests because this device's clock is wrong.\(clockDifferenceWords) Set the clock."
            )
        case ("InvalidAccessKeyId", _), ("SignatureDoesNotMatch", _), ("InvalidSecurity", _), (_, 401):
            return error(.unauthorized, "\(place) refuses the access key (\(named)). Check the key and its secret.")
        case ("ExpiredToken", _), ("InvalidToken", _), ("TokenRefreshRequired", _):
            return error(.unauthorized, "\(place) refuses the session token (\(named)). Get new credentials.")
        case ("PermanentRedirect", _), ("AuthorizationHeaderMalformed", _), ("IllegalLocationConstraintException", _),
            (_, 300..<400):
            guard let region else { return redirection(at: path, in: location) }
            return error(
                .notAllowed,
                "The bucket \(location.bucket) is in the region \(region). Set that region, for instance in AWS_REGION."
            )
        case ("NoSuchBucket", _):
            return error(
                .unavailable,
                "There is no bucket \(location.bucket) at \(place). Check the URL. The bucket must already exist."
            )
        case ("KeyTooLongError", _), ("InvalidURI", _), (_, 414), (_, 431):
            return error(.invalidPath, "\(place) can't store the name of “\(path)” (\(named)). Use another name.")
        case ("QuotaExceeded", _), ("EntityTooLarge", _), (_, 413), (_, 507):
            return error(.noSpace, "\(place) has no room for “\(path)” (\(named)). Free space there.")
        case ("NotImplemented", _), (_, 405), (_, 501):
            return error(.unsupported, "\(place) can't do this with “\(path)” (\(named)). Is it an S3 server?")
        case (_, 403):
            return error(.notAllowed, "\(place) doesn't allow this for “\(path)” (\(named)). Check the user's rights.")
        case ("NoSuchKey", _), (_, 404), (_, 410): return .notFound(path)
        case ("BadDigest", _), ("XAmzContentSHA256Mismatch", _), ("InvalidDigest", _), ("IncompleteBody", _):
            return error(.unavailable, "“\(path)” didn't arrive at \(place) as it was sent (\(named)). Try again.")
        default:
            return error(.unavailable, "\(place) failed a request for “\(path)” (\(named)). Try again later.")
        }
    }

    private var clockDifferenceWords: String {
        guard let seconds = clockDifference else { return "" }
        return " It is \(abs(seconds)) s \(seconds < 0 ? "behind" : "ahead of") the server's."
    }

    /// The error of a redirect to another server, which isn't followed.
    private func redirection(at path: RemotePath, in location: S3Location) -> RemoteError {
        let redirects = "\(location.identity) redirects to \(server ?? "another server"), which isn't followed"
        if let url = server.flatMap({ URL(string: $0) }), let own = URL(string: location.origin), url.addsTLS(to: own) {
            return RemoteError(.notAllowed, "\(redirects). Use an endpoint with https://.", path: path)
        }
        return RemoteError(
            // Without an S3 error, it may be a login page's redirect, which ends when the user signs in.
            code == nil ? .unavailable : .notAllowed,
            """
            \(redirects): credentials go to no other server. A network's login page may be in the way: sign in, then \
            try again. Use that server's URL if you trust it.
            """,
            path: path
        )
    }
}
