public import Foundation
public import RemoteStorage
import RemoteStorageHTTP

/// The location of a bucket, and how to connect to its server.
public struct S3Configuration: Sendable {
    /// How a request names the bucket.
    public enum Addressing: Sendable {
        /// In the host name at Amazon if the bucket's name has no dot, in the path otherwise.
        case automatic
        /// In the path: `https://host/bucket/key`.
        case path
        /// In the host name: `https://bucket.host/key`.
        case virtualHost
    }

    /// The minimum size of an upload's parts, except for the last one: 5 MiB.
    public static let smallestPartSize = 5 << 20

    /// The bucket, which must already exist.
    public let bucket: String
    /// The prefix of all keys, without a slash at either end; empty for the whole bucket.
    public let prefix: String
    /// The server, with the scheme `http` or `https`; `nil` for Amazon's in the region.
    public let endpoint: URL?
    /// The bucket's region.
    public let region: String
    /// The credentials that sign requests; `nil` for a public bucket.
    public var credentials: S3Credentials?
    /// How requests name the bucket.
    public var addressing = Addressing.automatic
    /// Whether requests may be sent without TLS to another machine.
    public var allowsCredentialsWithoutTLS = false
    /// Files with certificates, in PEM form, that are trusted in addition to the system's.
    public var trustedCertificates: [URL] = []
    /// How long each phase of a request may take.
    public var timeouts = RequestTimeouts()
    /// How often a request is retried.
    public var retries = RequestRetries()
    /// The clock that measures the delays between attempts, and how slowly an answer arrives.
    public var clock: any Clock<Duration> = ContinuousClock()
    /// The number of bytes of a file that one request sends or fetches; at least ``smallestPartSize``, at most 5 GiB.
    ///
    /// Larger files are sent in parts. The parts are larger if the file would need more than 10,000 of them. If its length
    /// isn't known, they grow from the 5,001st on, to 256 MiB at most. With the default, such a file can have 900 GiB.
    ///
    /// A part is sent from memory. A download fetches the bytes after the first request in parts of 2 MiB.
    public var partSize = 8 << 20
    /// The minimum size of a part, which tests make smaller than Amazon's.
    var minimumPartSize = S3Configuration.smallestPartSize
    /// The maximum size of a file that the server copies in one request, which tests make smaller than Amazon's.
    var largestCopy: Int64 = 5 << 30
    /// ``partSize``, limited to the sizes that S3 allows.
    var allowedPartSize: Int { min(max(partSize, minimumPartSize), Int(PartedUpload.maximumPartSize)) }
    /// The number of parts of a file that are sent or fetched concurrently, all of them in memory; at least 1.
    public var parallelParts = 4
    /// The age from which an unfinished multipart upload below the prefix is aborted by the next upload.
    ///
    /// Its parts take up space, and no list of files shows them.
    public var abandonedAfter = Duration.seconds(7 * 86_400)

    /// Creates a configuration.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - prefix: The prefix of all keys; slashes at either end don't matter.
    ///   - region: The bucket's region; servers other than Amazon's accept any.
    ///   - endpoint: The server, as `https://host:port`; `nil` for Amazon's.
    ///   - credentials: The credentials that sign requests.
    /// - Throws: ``/RemoteStorage/RemoteError/Code/invalidPath`` for an invalid bucket, region, prefix or endpoint.
    public init(
        bucket: String,
        prefix: String = "",
        region: String = "us-east-1",
        endpoint: URL? = nil,
        credentials: S3Credentials? = nil
    ) throws(RemoteError) {
        guard bucket.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]/) != nil else {
            throw Self.invalid("“\(bucket.prefix(100))” isn't a bucket name")
        }
        guard region.wholeMatch(of: /[A-Za-z0-9-]{1,64}/) != nil else {
            throw Self.invalid("“\(region.prefix(100))” isn't a region name")
        }
        let names = prefix.unicodeScalars.split(separator: "/").map { String($0) }
        do {
            _ = try RemotePath(components: names)
        } catch {
            throw Self.invalid("its prefix isn't a valid path")
        }
        self.bucket = bucket
        self.prefix = names.joined(separator: "/")
        self.region = region
        self.endpoint = try endpoint.map { url throws(RemoteError) in try Self.checked(url) }
        self.credentials = credentials
    }

    /// Creates a configuration from a URL.
    ///
    /// - Parameters:
    ///   - url: `s3://bucket/prefix`, optionally with the query parameters `endpoint`, `region` and `addressing` (`path` or
    ///     `virtual`).
    ///   - endpoint: The server's URL, which overrides the query's.
    ///   - region: The region, which overrides the query's.
    ///   - environment: The source of all other settings, including the credentials.
    /// - Throws: ``/RemoteStorage/RemoteError/Code/invalidPath`` for any other URL, ``/RemoteStorage/RemoteError/Code/unauthorized`` without credentials.
    public init(
        url: URL,
        endpoint: String? = nil,
        region: String? = nil,
        environment: S3Environment = .process
    ) throws(RemoteError) {
        guard let components = URLComponents(url: url, resolvingAgainstBaseURL: true), components.scheme == "s3" else {
            throw Self.invalid("its scheme isn't s3")
        }
        guard components.user == nil, components.password == nil else {
            throw Self.invalid("it holds credentials, which belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        }
        guard components.port == nil, components.fragment == nil else {
            throw Self.invalid("it has a port or a fragment. Give the server's URL as the endpoint")
        }
        var parameters: [String: String] = [:]
        for item in components.queryItems ?? [] {
            guard ["endpoint", "region", "addressing"].contains(item.name) else {
                // The message leaves out the value: it may be a secret.
                throw Self.invalid(
                    "its query has “\(item.name.prefix(40))”, but only endpoint, region and addressing are allowed"
                )
            }
            parameters[item.name] = item.value
        }
        var server: URL?
        if let text = endpoint ?? parameters["endpoint"] ?? environment.endpoint {
            guard let url = URL(string: text) else { throw Self.invalid("its endpoint isn't a URL") }
            server = url
        }
        try self.init(
            bucket: components.host ?? "",
            prefix: components.path,
            region: region ?? parameters["region"] ?? environment.region ?? "us-east-1",
            endpoint: server,
            credentials: environment.credentials()
        )
        switch parameters["addressing"] {
        case nil: break
        case "path": addressing = .path
        case "virtual": addressing = .virtualHost
        default: throw Self.invalid("its addressing is neither path nor virtual")
        }
    }

    private static func invalid(_ reason: String) -> RemoteError {
        // The message leaves out the URL: it may hold credentials.
        RemoteError(.invalidPath, "The S3 location isn't valid: \(reason). Write s3://bucket/prefix.")
    }

    /// Whether an attacker on the network could read what is signed; no request is sent then.
    package var exposesCredentials: Bool { settings.exposesCredentials }

    /// The transport that sends requests to the server.
    var transport: HTTPTransport {
        let signature = credentials.map { SignatureV4(credentials: $0, region: region) }
        return HTTPTransport(settings, S3Authentication(signature: signature))
    }

    private var settings: HTTPSettings {
        let location = S3Location(self)
        var settings = HTTPSettings(origin: location.origin, name: location.identity) { response, _ in
            S3Failure.isTransient(response)
        }
        settings.timeouts = timeouts
        settings.retries = retries
        settings.clock = clock
        settings.trustedCertificates = trustedCertificates.map { $0.path(percentEncoded: false) }
        settings.followsRedirects = false
        if credentials != nil { settings.credentials = allowsCredentialsWithoutTLS ? .inTheClear : .protected }
        return settings
    }

    private static func checked(_ endpoint: URL) throws(RemoteError) -> URL {
        guard var components = URLComponents(url: endpoint, resolvingAgainstBaseURL: true),
            let scheme = components.scheme?.lowercased(), scheme == "http" || scheme == "https"
        else { throw invalid("its endpoint's scheme is neither https nor http") }
        guard components.host?.isEmpty == false else { throw invalid("its endpoint names no host") }
        guard components.port.map((1...65_535).contains) ?? true else {
            throw invalid("its endpoint's port isn't a number from 1 to 65535")
        }
        guard components.user == nil, components.password == nil else {
            throw invalid("its endpoint holds credentials")
        }
        guard components.query == nil, components.fragment == nil else {
            throw invalid("its endpoint has a query or a fragment")
        }
        components.scheme = scheme
        components.normalize()
        guard let url = components.url else { throw invalid("its endpoint isn't a valid URL") }
        return url
    }
}
