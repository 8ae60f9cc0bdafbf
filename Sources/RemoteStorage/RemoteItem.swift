public import Foundation

/// What a backend knows of one file or directory without reading it.
public struct RemoteItem: Hashable, Sendable {
    /// What something is.
    public enum Kind: Hashable, Sendable {
        /// A file with bytes.
        case file
        /// A directory, which may be empty.
        case directory
        /// Anything else, such as a symbolic link or a socket: it can be removed, and nothing else.
        case other
    }

    /// The last component of its path; empty for the root.
    public var name: String
    /// What it is.
    public var kind: Kind
    /// How many bytes a file has, at most 2^53; 0 for everything else.
    public var size: Int64
    /// When it was changed, by the clock of the place; `nil` where the place doesn't say.
    public var modified: Date?
    /// Which version of the file this is; `nil` for everything else, and where the place doesn't say.
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

/// The mark of one version of a file, such as an HTTP entity tag.
///
/// Only the backend that gave it knows what is in it. Two that differ stand for two versions.
public struct RemoteTag: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The mark, as the place writes it.
    public let rawValue: String

    /// Creates a tag from the mark that the place gave.
    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    /// The mark, as the place writes it.
    public var description: String { rawValue }
}
