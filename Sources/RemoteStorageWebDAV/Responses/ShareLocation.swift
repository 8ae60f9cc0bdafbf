import ByteCoding
import Foundation
import RemoteStorage
import RemoteStorageHTTP

/// The location of a share on its server, and the encoding of its paths in URLs.
struct ShareLocation: Sendable {
    /// The names from the server's root to the share, as bytes: a server may use an encoding other than UTF-8.
    private let base: [[UInt8]]

    init(_ url: URL) {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        base = Self.components(of: path) ?? []
    }

    /// Returns the percent-encoded path of an item, in the form that a request contains.
    func target(_ path: RemotePath, isDirectory: Bool = false) -> String {
        let names = base + path.components.map { Array($0.utf8) }
        let slash = isDirectory || path == .root
        return "/" + names.map { PercentEncoding.encode($0) }.joined(separator: "/")
            + (slash && !names.isEmpty ? "/" : "")
    }

    /// Returns the path in the share that a server's reference names; `nil` for a reference outside the share.
    func path(of reference: String) -> RemotePath? {
        var encoded = Substring(reference)
        if let scheme = reference.range(of: "://") {
            let rest = reference[scheme.upperBound...]
            encoded = rest[(rest.firstIndex(of: "/") ?? rest.endIndex)...]
        }
        guard let components = Self.components(of: String(encoded)), components.starts(with: base) else { return nil }
        let names = components.dropFirst(base.count).map { String(validating: $0, as: UTF8.self) }
        guard !names.contains(nil) else { return nil }
        return try? RemotePath(components: names.compactMap(\.self))
    }

    /// Returns the decoded names of an encoded path; `nil` if the encoding isn't valid.
    private static func components(of path: String) -> [[UInt8]]? {
        var components: [[UInt8]] = []
        for part in path.utf8.split(separator: UInt8(ascii: "/")) {
            var bytes: [UInt8] = []
            var rest = part[...]
            while let byte = rest.popFirst() {
                guard byte == UInt8(ascii: "%") else {
                    bytes.append(byte)
                    continue
                }
                let digits = rest.prefix(2)
                guard digits.count == 2, let value = [UInt8](hexadecimal: digits) else { return nil }
                bytes += value
                rest = rest.dropFirst(2)
            }
            components.append(bytes)
        }
        return components
    }
}
