public import Foundation

/// What a backend knows about one file or directory without reading it.
public struct RemoteItem: Hashable, Sendable {
    /// The kind of an item.
    public enum Kind: Hashable, Sendable {
        /// A file with bytes.
        case file
        /// A directory, which may be empty.
        case directory
        /// Anything else, such as a symbolic link or a socket, which can only be removed.
        case other
    }

    /// The last component of the item's path; empty for the root.
    public var name: String
    /// Whether the item is a file, a directory or something else.
    public var kind: Kind
    /// The number of bytes in a file, at most 2^53; 0 for everything else.
    public var size: Int64
    /// The time of the last change, by the storage's clock; `nil` if the storage doesn't report it.
    public var modified: Date?
    /// The version of the file; `nil` for everything else, and if the storage doesn't report it.
    public var tag: RemoteTag?

    /// Creates an item.
    public init(name: String, kind: Kind, size: Int64 = 0, modified: Date? = nil, tag: RemoteTag? = nil) {
        self.name = name
        self.kind = kind
        self.size = min(max(size, 0), 1 << 53)
        self.modified = modified
        self.tag = tag
    }
}

/// An identifier of one version of a file, such as an HTTP entity tag.
///
/// A tag is opaque to all code but the backend that created it. Equal tags mean the same version; the
/// reverse needs ``RemoteCapabilities/contentTags``.
public struct RemoteTag: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The tag as the storage writes it.
    public let rawValue: String

    /// Creates a tag from the string that the storage reported.
    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    /// The tag as the storage writes it.
    public var description: String { rawValue }
}
