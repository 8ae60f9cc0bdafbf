import RemoteStorage

/// Directories of a share that needn't be looked for; others may have removed them since.
struct KnownDirectories: Sendable {
    enum Certainty: Comparable, Sendable {
        /// A request of ours found something there while another one was making the directory.
        case presumed
        case seen
        /// It was listed or made, so that a directory in it that isn't known isn't there.
        case explored
    }

    private var certainties: [RemotePath: Certainty] = [.root: .seen]

    func contains(_ path: RemotePath) -> Bool { certainties[path] != nil }

    /// Whether a directory was there for certain, and not only presumed to be.
    func isCertain(of path: RemotePath) -> Bool { certainties[path].map { $0 > .presumed } ?? false }

    /// Whether what is known says that a directory isn't there.
    func areWithout(_ path: RemotePath) -> Bool {
        guard !contains(path) else { return false }
        var ancestor = path.parent
        while let candidate = ancestor, !contains(candidate) { ancestor = candidate.parent }
        return ancestor.map { certainties[$0] == .explored } ?? false
    }

    /// Notes that a directory is there.
    mutating func insert(_ path: RemotePath, _ certainty: Certainty) {
        certainties[path] = max(certainties[path] ?? .presumed, certainty)
    }

    /// Forgets what was there, and everything in it.
    mutating func forget(_ path: RemotePath) {
        certainties = certainties.filter { !$0.key.isEqualToOrInside(path) }
        certainties[.root] = certainties[.root] ?? .seen
    }

    /// Forgets every directory above something, since the server says that one is missing.
    mutating func forget(above path: RemotePath) {
        certainties = certainties.filter { !path.isEqualToOrInside($0.key) }
        certainties[.root] = .seen
    }
}
