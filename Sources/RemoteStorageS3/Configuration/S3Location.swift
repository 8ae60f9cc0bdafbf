import Foundation
import RemoteStorage
import RemoteStorageHTTP

/// The location of a bucket's keys on their server, and how URLs encode them.
struct S3Location: Sendable {
    /// The server, as `https://host:port`.
    let origin: String
    let bucket: String
    /// The prefix of every key: empty, or with a slash at its end.
    let prefix: String
    /// The path before each key, percent-encoded.
    private let base: String
    /// The storage's stable name.
    let identity: String

    init(_ configuration: S3Configuration) {
        let isAmazon = configuration.endpoint == nil
        let suffix = configuration.region.hasPrefix("cn-") ? ".cn" : ""
        let amazon = "https://s3.\(configuration.region).amazonaws.com\(suffix)"
        let endpoint = configuration.endpoint?.absoluteString ?? amazon
        let isVirtual =
            switch configuration.addressing {
            case .automatic: isAmazon && !configuration.bucket.contains(".")
            case .path: false
            case .virtualHost: true
            }
        let components = URLComponents(string: endpoint) ?? URLComponents()
        var origin = "\(components.scheme ?? "https")://\(isVirtual ? "\(configuration.bucket)." : "")"
        origin += components.percentEncodedHost ?? ""
        if let port = components.port { origin += ":\(port)" }
        self.origin = origin
        bucket = configuration.bucket
        prefix = configuration.prefix.isEmpty ? "" : configuration.prefix + "/"
        base = components.percentEncodedPath + (isVirtual ? "" : "/" + PercentEncoding.encode(bucket.utf8))
        let path = PercentEncoding.encode(configuration.prefix.utf8, keepingSlashes: true)
        identity =
            "s3://\(bucket)" + (path.isEmpty ? "" : "/\(path)") + (isAmazon ? "" : "?endpoint=\(endpoint)")
    }

    /// The key of a file.
    func key(_ path: RemotePath) -> String { prefix + path.components.joined(separator: "/") }

    /// The key of a directory, which is the prefix of all keys in it.
    func directoryKey(_ path: RemotePath) -> String { path == .root ? prefix : key(path) + "/" }

    /// The request target as it is sent: the bucket if `key` is `nil`.
    ///
    /// The parameters are sorted by name, as signatures require.
    func target(_ key: String? = nil, _ query: [String: String] = [:]) -> String {
        var target = base
        if let key { target += "/" + PercentEncoding.encode(key.utf8, keepingSlashes: true) }
        if target.isEmpty { target = "/" }
        let parameters = query.map { name, value in
            (PercentEncoding.encode(name.utf8), PercentEncoding.encode(value.utf8))
        }
        guard !parameters.isEmpty else { return target }
        return target + "?" + parameters.sorted { $0.0 < $1.0 }.map { "\($0)=\($1)" }.joined(separator: "&")
    }

    /// The value of a copy's source header.
    func copySource(_ key: String) -> String {
        "/" + PercentEncoding.encode(bucket.utf8) + "/" + PercentEncoding.encode(key.utf8, keepingSlashes: true)
    }
}
