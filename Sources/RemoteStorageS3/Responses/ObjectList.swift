import Foundation
import RemoteStorage
import RemoteStorageHTTP

/// One page of a bucket's list, from ListObjectsV2.
struct ObjectList: Sendable {
    struct Object: Equatable, Sendable {
        var key: String
        var size: Int64
        /// In whole seconds, as in the response to HEAD.
        var modified: Date?
        var tag: RemoteTag?
    }

    var objects: [Object]
    /// The common prefixes of several keys, up to a slash.
    var prefixes: [String]
    /// The token of the next page; `nil` for the last page.
    var continuation: String?

    init(_ bytes: [UInt8]) throws(CheckedXML.Malformed) {
        let element = try S3Element(bytes, named: "ListBucketResult")
        objects = []
        for content in element.all("Contents") {
            guard let key = content["Key"], let size = content["Size"].flatMap({ Int64($0) }) else {
                throw CheckedXML.Malformed(description: "it lists a file without a key or a size")
            }
            objects.append(
                Object(
                    key: key,
                    size: size,
                    modified: content["LastModified"].flatMap { Self.date($0) },
                    tag: content["ETag"].map { RemoteTag(entityTag: $0) }
                )
            )
        }
        prefixes = element.all("CommonPrefixes").compactMap { $0["Prefix"] }
        let token = element["NextContinuationToken"].flatMap { $0.isEmpty ? nil : $0 }
        // A server that doesn't say whether there is another page names it if there is.
        let isTruncated = element["IsTruncated"].map { $0.lowercased() == "true" } ?? (token != nil)
        guard isTruncated else { return }
        guard let token else {
            throw CheckedXML.Malformed(description: "it is truncated, but has no continuation token")
        }
        continuation = token
    }

    /// A time as lists write it, to the second.
    static func date(_ text: String) -> Date? {
        let plain = text.split(separator: ".").first.map { String($0) } ?? text
        return try? Date(plain.hasSuffix("Z") ? plain : plain + "Z", strategy: .iso8601)
    }
}

extension RemoteTag {
    /// Creates a tag as headers write it: some servers omit the quotation marks in lists.
    init(entityTag: String) {
        self.init(entityTag.hasPrefix("\"") || entityTag.hasPrefix("W/") ? entityTag : "\"\(entityTag)\"")
    }
}

extension RemoteItem {
    /// Creates a directory, of which only the name is known.
    init(directory name: String) {
        self.init(name: name, kind: .directory)
    }

    init(_ object: ObjectList.Object, named name: String) {
        self.init(name: name, kind: .file, size: object.size, modified: object.modified, tag: object.tag)
    }
}
