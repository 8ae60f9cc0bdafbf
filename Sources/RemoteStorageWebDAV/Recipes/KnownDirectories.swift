import RemoteStorage

/// The directories that this client has seen in a share; other clients may have removed them since.
struct KnownDirectories: Sendable {
    enum Certainty: Comparable, Sendable {
        /// A request found an item there while another request of this client was creating the directory.
        case presumed
        case seen
        /// The directory was listed or created, so that a directory in it that isn't known doesn't exist.
        case explored
    }

    private var certainties: [RemotePath: Certainty] = [.root: .seen]

    func contains(_ path: RemotePath) -> Bool { certainties[path] != nil }

    /// Whether this client has certainly seen a directory, not only presumed it.
    func isCertain(of path: RemotePath) -> Bool { certainties[path].map { $0 > .presumed } ?? false }

    /// Whether the known directories imply that a directory doesn't exist.
    func areWithout(_ path: RemotePath) -> Bool {
        guard !contains(path) else { return false }
        var ancestor = path.parent
        while let candidate = ancestor, !contains(candidate) { ancestor = candidate.parent }
        return ancestor.map { certainties[$0] == .explored } ?? false
    }

    /// Records that a directory exists.
    mutating func insert(_ path: RemotePath, _ certainty: Certainty) {
        certainties[path] = max(certainties[path] ?? .presumed, certainty)
    }

    /// Forgets a directory, and everything in it.
    mutating func forget(_ path: RemotePath) {
        certainties = certainties.filter { !$0.key.isEqualToOrInside(path) }
        certainties[.root] = certainties[.root] ?? .seen
    }

    /// Forgets every directory above a path, because the server reports that a directory is missing.
    mutating func forget(above path: RemotePath) {
        certainties = certainties.filter { !path.isEqualToOrInside($0.key) }
        certainties[.root] = .seen
    }
}
