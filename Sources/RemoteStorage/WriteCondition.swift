/// The condition under which a file is written; if it doesn't hold, the write is refused and changes nothing.
public enum WriteCondition: Hashable, Sendable {
    /// No condition: an existing file is replaced.
    case always
    /// The path doesn't exist; else the write is refused with ``RemoteError/Code/alreadyExists``.
    case ifAbsent
    /// The file exists in the version of this tag; else the write is refused with ``RemoteError/Code/preconditionFailed``.
    case ifMatches(RemoteTag)

    /// Throws the error of a refused write if `existing`, the item at `path`, doesn't allow the write.
    package func check(_ existing: RemoteItem?, at path: RemotePath) throws(RemoteError) {
        if case .ifAbsent = self, existing != nil { throw .alreadyExists(path) }
        switch existing?.kind {
        case .directory: throw .notAFile(path)
        case .other: throw .specialFile(path)
        case .file, nil: break
        }
        if case .ifMatches(let tag) = self, existing?.tag != tag { throw .preconditionFailed(path) }
    }
}
