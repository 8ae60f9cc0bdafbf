import RemoteStorage
import ThreadSupport

/// A folder that calls a hook before and after every request that changes something, and before every other request.
actor ObservedBackend: ObservingBackend {
    nonisolated let base: any RemoteBackend
    private let allowed: RemoteCapabilities?
    private let hook: @Sendable (String) throws -> Void

    /// How many bytes were written to files.
    let writtenBytes = Locked<Int64>(0)

    /// - Parameters: `allowed` are the capabilities that it reports, or all of the folder's if this is `nil`.
    init(
        _ folder: LocalFolderBackend,
        _ allowed: RemoteCapabilities?,
        _ hook: @escaping @Sendable (String) throws -> Void
    ) {
        base = folder
        self.allowed = allowed
        self.hook = hook
    }

    func capabilities() async throws -> RemoteCapabilities {
        let all = try await base.capabilities()
        return allowed.map { all.intersection($0) } ?? all
    }

    func observe<Answer: Sendable>(
        _ request: ObservedRequest,
        _ send: () async throws -> Answer
    ) async throws -> Answer {
        try hook("before \(request.name)")
        let answer = try await send()
        if request.kind == .write, let item = answer as? RemoteItem { writtenBytes.withLock { $0 += item.size } }
        if request.isChange { try hook("after \(request.name)") }
        return answer
    }
}
