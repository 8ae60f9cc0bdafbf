import RemoteStorage

/// A storage whose first answer for a file is from before what happens until the answer arrives.
actor OvertakenBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private let path: RemotePath
    private let former: [UInt8]
    private var meanwhile: (@Sendable () async -> Void)?

    /// Creates a storage.
    ///
    /// - Parameters:
    ///   - base: The storage.
    ///   - path: The file.
    ///   - former: The file's content in the first answer.
    ///   - meanwhile: What happens before the first answer arrives.
    init(
        _ base: any RemoteBackend,
        reading path: RemotePath,
        as former: [UInt8],
        meanwhile: @escaping @Sendable () async -> Void
    ) {
        (self.base, self.path, self.former, self.meanwhile) = (base, path, former, meanwhile)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        guard path == self.path, let meanwhile = meanwhile.take() else {
            return try await base.read(path, range: range)
        }
        await Task { await meanwhile() }.value
        return RemoteContent(former)
    }
}
