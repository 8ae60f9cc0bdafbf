import RemoteStorage

/// A storage behind a proxy that sends every move twice: the storage refuses the second request.
actor RepeatingBackend: ForwardingBackend {
    nonisolated let base: any RemoteBackend

    init(_ base: any RemoteBackend) { self.base = base }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await base.move(source, to: destination)
        throw RemoteError.alreadyExists(destination)
    }
}
