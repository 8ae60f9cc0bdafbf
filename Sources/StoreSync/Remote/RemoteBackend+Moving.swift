import RemoteStorage

extension RemoteBackend {
    /// Moves a directory to a name that no other directory gets; returns `false` if `source` doesn't exist any more.
    func moveAside(_ source: RemotePath, to aside: RemotePath) async throws -> Bool {
        do {
            try await move(source, to: aside)
            return true
        } catch let error as RemoteError where error.code == .notFound {
            return false
        } catch let error as RemoteError where error.code == .alreadyExists {
            // The refusal may be the answer to this client's own request, sent twice.
            guard try await status(of: source) == nil else { throw error }
            return true
        }
    }

    /// Moves what is in a directory to another one; files replace those of the same names.
    func moveContent(of source: RemotePath, to destination: RemotePath) async throws {
        for item in try await list(source) ?? [] {
            let (old, new) = (try source.appending(item.name), try destination.appending(item.name))
            do {
                try await move(old, to: new)
            } catch let error as RemoteError where error.code == .alreadyExists {
                if item.kind == .directory {
                    try await moveContent(of: old, to: new)
                } else {
                    try await copy(old, to: new, when: .always)
                }
            }
        }
    }
}
