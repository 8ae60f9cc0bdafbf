/// What must be so for a file to be written; otherwise the write is refused and changes nothing.
public enum WriteCondition: Hashable, Sendable {
    /// Nothing: a file that is there is replaced.
    case always
    /// Nothing is there. Refused with ``RemoteError/Code/alreadyExists``.
    case ifAbsent
    /// The file is there in the version of this tag. Refused with ``RemoteError/Code/preconditionFailed``.
    case ifMatches(RemoteTag)

    /// Throws the error of a refused write where `existing`, which is at `path`, doesn't allow it.
    package func check(_ existing: RemoteItem?, at path: RemotePath) throws(RemoteError) {
        if case .ifAbsent = self, existing != nil { throw .alreadyExists(path) }
        switch existing?.kind {
        case .directory: throw .notAFile(path)
        case .other: throw .isSpecial(path)
        case .file, nil: break
        }
        if case .ifMatches(let tag) = self, existing?.tag != tag { throw .preconditionFailed(path) }
    }
}
