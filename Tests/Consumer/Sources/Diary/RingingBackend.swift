package import RemoteStorage

/// A storage whose devices are called as soon as an announcement has been posted.
package actor RingingBackend: ForwardingBackend, AnnouncementHooks {
    package nonisolated let base: any RemoteBackend
    package nonisolated var backend: any RemoteBackend { self }
    private let ring: @Sendable (RemotePath) async -> Void

    package init(_ base: any RemoteBackend, ring: @escaping @Sendable (RemotePath) async -> Void) {
        self.base = base
        self.ring = ring
    }

    package func postAnnouncement(
        _ bytes: [UInt8],
        at path: RemotePath,
        when condition: WriteCondition
    ) async throws -> Bool {
        let hooks = DefaultAnnouncementHooks(backend: base)
        guard try await hooks.postAnnouncement(bytes, at: path, when: condition) else { return false }
        await ring(path)
        return true
    }
}
