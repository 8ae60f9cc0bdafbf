/// The path of an item, from the root of a ``RemoteBackend``.
///
/// No value of this type can leave the root, even if its components come from an untrusted source. It can't hold `..`, `.`,
/// an empty component, a NUL, a `/` inside a component, or a component of more than 255 bytes of UTF-8.
///
/// Two paths are equal when their strings are, which for Swift means canonically equivalent Unicode. A folder on Linux
/// distinguishes such names, a folder on an Apple platform doesn't. Use one form for names, preferably ASCII.
public struct RemotePath: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The root, which has no components.
    public static let root = RemotePath(validated: [])

    /// The names from the root down.
    public let components: [String]

    private init(validated components: [String]) {
        self.components = components
    }

    /// Creates a path from the names from the root down; no names create the root.
    ///
    /// - Parameter components: The names.
    /// - Throws: ``RemoteError/Code/invalidPath``.
    public init(components: some Sequence<String>) throws(RemoteError) {
        var path = RemotePath.root
        for component in components {
            path = try path.appending(component)
        }
        self = path
    }

    /// Creates a path from names that are separated by `/`, such as `documents/notes/latest`.
    ///
    /// - Parameter string: The names; neither empty nor with a `/` at either end.
    /// - Throws: ``RemoteError/Code/invalidPath``.
    public init(_ string: String) throws(RemoteError) {
        // By Unicode scalars: a slash followed by a combining mark is another Character and wouldn't be found.
        let components = string.unicodeScalars.split(separator: "/", omittingEmptySubsequences: false)
        try self.init(components: components.map { String($0) })
    }

    /// The path of `component` in the directory that this path names.
    ///
    /// - Parameter component: One name.
    /// - Returns: The longer path.
    /// - Throws: ``RemoteError/Code/invalidPath``.
    public func appending(_ component: String) throws(RemoteError) -> RemotePath {
        guard isValid(component) else {
            throw RemoteError(
                .invalidPath,
                """
                “\(component.prefix(300))” can't be a name in “\(self)”. A name has 1 to 255 bytes, no “/” and no NUL, \
                and is neither “.” nor “..”.
                """
            )
        }
        return RemotePath(validated: components + [component])
    }

    /// The path of `identifier` in the directory that this path names.
    public func appending(_ identifier: RemoteIdentifier) -> RemotePath {
        RemotePath(validated: components + [identifier.rawValue])
    }

    /// The path of `name`, a literal in this package's source, in the directory that this path names.
    package func appending(literal name: StaticString) -> RemotePath {
        let name = String(describing: name)
        precondition(isValid(name), "“\(name)” isn't a path component")
        return RemotePath(validated: components + [name])
    }

    /// The directory that contains this path; `nil` for the root.
    public var parent: RemotePath? {
        components.isEmpty ? nil : RemotePath(validated: components.dropLast())
    }

    /// The name at the end; `nil` for the root.
    public var lastComponent: String? { components.last }

    /// Whether this path is `other` or inside it, at any depth.
    public func isEqualToOrInside(_ other: RemotePath) -> Bool {
        components.starts(with: other.components)
    }

    /// Orders paths by their components, so that a directory comes right before its contents.
    public static func < (left: RemotePath, right: RemotePath) -> Bool {
        left.components.lexicographicallyPrecedes(right.components)
    }

    /// The names separated by `/`; `/` for the root.
    public var description: String {
        components.isEmpty ? "/" : components.joined(separator: "/")
    }
}

private func isValid(_ component: String) -> Bool {
    let bytes = component.utf8
    return (1...255).contains(bytes.count) && component != "." && component != ".."
        && !bytes.contains(UInt8(ascii: "/")) && !bytes.contains(0)
}
