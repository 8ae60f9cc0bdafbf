public import Foundation
public import RemoteStorage
import RemoteStorageHTTP

/// Where a bucket is, and how to talk to its server.
public struct S3Configuration: Sendable {
    /// How a bucket is named in a request.
    public enum Addressing: Sendable {
        /// In the host's name at Amazon, unless the bucket's name has a dot; else in the path.
        case automatic
        /// In the path: `https://host/bucket/key`.
        case path
        /// In the host's name: `https://bucket.host/key`.
        case virtualHost
    }

    /// The smallest part of an upload that servers take, but for the last one: 5 MiB.
    public static let smallestPartSize = 5 << 20

    /// The bucket, which is there already.
    public let bucket: String
    /// What the keys begin with, without a slash at either end; empty for the whole bucket.
    public let prefix: String
    /// The server, with the scheme `http` or `https`; `nil` for Amazon's in the region.
    public let endpoint: URL?
    /// The bucket's region.
    public let region: String
    /// Who asks; `nil` for a bucket that is open to all.
    public var credentials: S3Credentials?
    /// How the bucket is named in requests.
    public var addressing = Addressing.automatic
    /// Whether requests may be sent without TLS to another machine.
    public var allowsCredentialsWithoutTLS = false
    /// Files with certificates, in PEM form, that are trusted besides those of the system.
    public var trustedCertificates: [URL] = []
    /// How long each phase of a request may take.
    public var timeouts = RequestTimeouts()
    /// How often a request is tried again.
    public var retries = RequestRetries()
    /// The clock by which tries are waited for.
    public var clock: any Clock<Duration> = ContinuousClock()
    /// How many bytes of a file are sent or fetched by one request; at least ``smallestPartSize``.
    ///
    /// Larger files are sent in parts, which grow where there would be more than 10,000 of them. Of what is fetched, the rest
    /// follows in parts of 2 MiB.
    public var partSize = 8 << 20
    /// The smallest part that the server takes, which tests make smaller than Amazon's.
    var minimumPartSize = S3Configuration.smallestPartSize
    /// How many parts of a file are sent or fetched side by side, all of them in memory.
    public var parallelParts = 4
    /// How old an upload in parts below the prefix that was never finished must be for the next one to abort it.
    ///
    /// Its parts take room and show in no list.
    public var abandonedAfter = Duration.seconds(7 * 86_400)

    /// Creates a configuration.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - prefix: What the keys begin with; slashes at either end don't matter.
    ///   - region: The bucket's region; servers other than Amazon's take any.
    ///   - endpoint: The server, as `https://host:port`; `nil` for Amazon's.
    ///   - credentials: Who asks.
    /// - Throws: ``/RemoteStorage/RemoteError/Code/invalidPath`` for a bucket, prefix or endpoint that can't be one.
    public init(
        bucket: String,
        prefix: String = "",
        region: String = "us-east-1",
        endpoint: URL? = nil,
        credentials: S3Credentials? = nil
    ) throws(RemoteError) {
        guard bucket.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]/) != nil else {
            throw Self.invalid("“\(bucket.prefix(100))” is no bucket's name")
        }
        guard region.wholeMatch(of: /[A-Za-z0-9-]{1,64}/) != nil else {
            throw Self.invalid("“\(region.prefix(100))” is no region's name")
        }
        let names = prefix.unicodeScalars.split(separator: "/").map { String($0) }
        do {
            _ = try RemotePath(components: names)
        } catch {
            throw Self.invalid("its prefix can't be one")
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
    ///   - url: `s3://bucket/prefix`, perhaps with the query's parameters `endpoint`, `region` and `addressing` (`path` or
    ///     `virtual`).
    ///   - endpoint: The server's URL, rather than the one that the query names.
    ///   - region: The region, rather than the one that the query names.
    ///   - environment: What says the rest, credentials included.
    /// - Throws: ``/RemoteStorage/RemoteError/Code/invalidPath`` for another URL, ``/RemoteStorage/RemoteError/Code/unauthorized`` without credentials.
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
            throw Self.invalid("it holds credentials, which belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        }
        guard components.port == nil, components.fragment == nil else {
            throw Self.invalid("it has a port or a fragment. The server's own URL is the endpoint")
        }
        var parameters: [String: String] = [:]
        for item in components.queryItems ?? [] {
            guard ["endpoint", "region", "addressing"].contains(item.name) else {
                // Without the value: it may be a secret.
                throw Self.invalid(
                    "its query has “\(item.name.prefix(40))”, and may have endpoint, region and addressing"
                )
            }
            parameters[item.name] = item.value
        }
        var server: URL?
        if let text = endpoint ?? parameters["endpoint"] ?? environment.endpoint {
            guard let url = URL(string: text) else { throw Self.invalid("its endpoint is no URL") }
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
        // Without the URL itself: it may hold credentials.
        RemoteError(.invalidPath, "That can't be a bucket: \(reason). Write s3://bucket/prefix.")
    }

    /// What requests to the server are sent by.
    var transport: HTTPTransport {
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
        let signature = credentials.map { SignatureV4(credentials: $0, region: region) }
        return HTTPTransport(settings, S3Authentication(signature: signature))
    }

    private static func checked(_ endpoint: URL) throws(RemoteError) -> URL {
        guard var components = URLComponents(url: endpoint, resolvingAgainstBaseURL: true),
            let scheme = components.scheme?.lowercased(), scheme == "http" || scheme == "https"
        else { throw invalid("its endpoint's scheme is neither https nor http") }
        guard let host = components.host, !host.isEmpty else { throw invalid("its endpoint names no host") }
        guard components.user == nil, components.password == nil else {
            throw invalid("its endpoint holds credentials")
        }
        guard components.query == nil, components.fragment == nil else {
            throw invalid("its endpoint has a query or a fragment")
        }
        components.scheme = scheme
        components.host = host.lowercased()
        if components.port == (scheme == "https" ? 443 : 80) { components.port = nil }
        while components.percentEncodedPath.hasSuffix("/") { components.percentEncodedPath.removeLast() }
        guard let url = components.url else { throw invalid("its endpoint can't be taken apart") }
        return url
    }
}
