import Foundation
import RemoteStorage
import RemoteStorageHTTP

/// One page of a bucket's list, by ListObjectsV2.
struct ObjectList: Equatable, Sendable {
    struct Object: Equatable, Sendable {
        var key: String
        var size: Int64
        /// In whole seconds, as the answer to HEAD has it.
        var modified: Date?
        var tag: RemoteTag?
    }

    var objects: [Object]
    /// What several keys begin with, up to a slash.
    var prefixes: [String]
    /// Where the next page begins; `nil` for the last one.
    var continuation: String?

    init(_ bytes: [UInt8]) throws(CheckedXML.Malformed) {
        let element = try S3Element(bytes, named: "ListBucketResult")
        objects = []
        for content in element.all("Contents") {
            guard let key = content["Key"], let size = content["Size"].flatMap({ Int64($0) }) else {
                throw CheckedXML.Malformed(description: "it lists a file without key or size")
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
        guard element["IsTruncated"]?.lowercased() == "true" else { return }
        guard let token = element["NextContinuationToken"], !token.isEmpty else {
            throw CheckedXML.Malformed(description: "it has more, and doesn't say how to go on")
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
    /// The mark as headers write it; some servers leave the quotation marks away in lists.
    init(entityTag: String) {
        self.init(entityTag.hasPrefix("\"") || entityTag.hasPrefix("W/") ? entityTag : "\"\(entityTag)\"")
    }
}

extension RemoteItem {
    /// A directory, of which nothing but its name is known.
    init(directory name: String) {
        self.init(name: name, kind: .directory)
    }

    init(_ object: ObjectList.Object, named name: String) {
        self.init(name: name, kind: .file, size: object.size, modified: object.modified, tag: object.tag)
    }
}
