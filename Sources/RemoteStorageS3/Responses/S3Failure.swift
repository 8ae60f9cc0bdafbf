import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP

/// What S3 says of a request that failed.
struct S3Failure: Equatable, Sendable {
    let status: Int
    /// The error's name, such as `NoSuchKey`; `nil` where the server doesn't say, as in answers to HEAD.
    let code: String?
    /// The region in which the bucket is, where the server says that it is another one.
    let region: String?
    /// Where the request was redirected.
    let host: String?
    /// By how much this device's clock differs from the server's, in seconds.
    let clockDifference: Int?

    /// Reads an answer.
    ///
    /// Returns `nil` for a success; S3 begins the answers to some requests as one, and ends them with an error.
    init?(_ response: HTTPResponse, now: Date = Date()) {
        // A part of a file, which may hold anything.
        guard response.status != 206 || !response.headers.contains(name: "Content-Range") else { return nil }
        // Looked for before it is parsed: lists are long, and no name in them has such a bracket.
        let isError = Data(response.bytes).range(of: Data("<Error".utf8)) != nil
        let element = isError ? try? S3Element(response.bytes, named: "Error") : nil
        guard !response.isSuccess || element != nil else { return nil }
        status = response.status
        code = element?["Code"]
        region = element?["Region"] ?? response.headers.first(name: "x-amz-bucket-region")
        host =
            element?["Endpoint"]
            ?? response.headers.first(name: "Location").flatMap { URL(string: $0)?.host(percentEncoded: false) }
        clockDifference = response.headers.first(name: "Date").flatMap { HTTPDate($0) }
            .map { Int(now.timeIntervalSince($0.date)) }
    }

    /// Whether the same request may succeed later.
    static func isTransient(_ response: HTTPResponse) -> Bool {
        guard let failure = S3Failure(response) else { return false }
        switch failure.status {
        case 408, 425, 429, 500, 502, 503, 504: return true
        default:
            // A conflict is one with a request that is being carried out at the same time.
            return [
                "InternalError", "SlowDown", "ServiceUnavailable", "Throttling", "RequestTimeout", "OperationAborted",
                "ConditionalRequestConflict",
            ].contains(failure.code)
        }
    }

    /// What the failure means, for people.
    ///
    /// - Parameters:
    ///   - path: What the request was about.
    ///   - location: Where the bucket is.
    /// - Returns: The error, with a remedy.
    func error(at path: RemotePath, in location: S3Location) -> RemoteError {
        let place = location.identity
        let named = code ?? "HTTP status \(status)"
        func error(_ code: RemoteError.Code, _ words: String) -> RemoteError { RemoteError(code, words, path: path) }
        switch (code, status) {
        case ("RequestTimeTooSkewed", _), ("RequestExpired", _):
            let difference = clockDifference.map { seconds in
                " It is \(abs(seconds)) s \(seconds < 0 ? "behind" : "ahead of") the server's."
            }
            return error(
                .unauthorized,
                "\(place) refuses requests because this device's clock is wrong.\(difference ?? "") Set the clock."
            )
        case ("InvalidAccessKeyId", _), ("SignatureDoesNotMatch", _), ("InvalidSecurity", _), (_, 401):
            return error(.unauthorized, "\(place) refuses the access key (\(named)). Check the key and its secret.")
        case ("ExpiredToken", _), ("InvalidToken", _), ("TokenRefreshRequired", _):
            return error(.unauthorized, "\(place) refuses the session token (\(named)). Get new credentials.")
        case ("PermanentRedirect", _), ("AuthorizationHeaderMalformed", _), ("IllegalLocationConstraintException", _),
            (_, 300..<400):
            guard let region else {
                return error(
                    .notAllowed,
                    "\(place) redirects to \(host ?? "another place"), which isn't followed: credentials go to no other server. Use its URL if you trust it."
                )
            }
            return error(
                .notAllowed,
                "The bucket \(location.bucket) is in the region \(region). Name that one, for instance in AWS_REGION."
            )
        case ("NoSuchBucket", _):
            return error(
                .unavailable,
                "There is no bucket \(location.bucket) at \(place). Check the URL; the bucket has to be there already."
            )
        case ("KeyTooLongError", _), ("InvalidURI", _), (_, 414), (_, 431):
            return error(.invalidPath, "\(place) can't hold a name like that of “\(path)” (\(named)).")
        case ("QuotaExceeded", _), ("EntityTooLarge", _), (_, 413), (_, 507):
            return error(.noSpace, "\(place) has no room for “\(path)” (\(named)). Make room there.")
        case ("NotImplemented", _), (_, 405), (_, 501):
            return error(.unsupported, "\(place) can't do this at “\(path)” (\(named)). Is it an S3 server?")
        case (_, 403):
            return error(.notAllowed, "\(place) doesn't allow this at “\(path)” (\(named)). Check the user's rights.")
        case ("NoSuchKey", _), (_, 404), (_, 410): return .notFound(path)
        case ("BadDigest", _), ("XAmzContentSHA256Mismatch", _), ("InvalidDigest", _), ("IncompleteBody", _):
            return error(.unavailable, "“\(path)” didn't arrive at \(place) as it was sent (\(named)). Try again.")
        default:
            return error(.unavailable, "\(place) failed at “\(path)” (\(named)). Try again later.")
        }
    }
}
