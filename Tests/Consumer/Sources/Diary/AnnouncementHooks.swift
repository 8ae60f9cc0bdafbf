package import RemoteStorage

/// The remote steps of an ``Announcement``, which a backend may carry out in its own way.
///
/// Every backend has the defaults of ``DefaultAnnouncementHooks``, built on its file requests.
package protocol AnnouncementHooks: Sendable {
    /// The backend that the hooks work on.
    var backend: any RemoteBackend { get }

    /// Reads the announcement that a device has now, with the condition for replacing exactly that one.
    func fetchAnnouncement(at path: RemotePath) async throws -> (bytes: [UInt8]?, condition: WriteCondition)

    /// Posts an announcement if the condition holds, and returns whether it did.
    func postAnnouncement(_ bytes: [UInt8], at path: RemotePath, when condition: WriteCondition) async throws -> Bool
}

extension AnnouncementHooks {
    /// Reads the file and its tag.
    package func fetchAnnouncement(at path: RemotePath) async throws -> (bytes: [UInt8]?, condition: WriteCondition) {
        guard let item = try await backend.status(of: path), let tag = item.tag else { return (nil, .ifAbsent) }
        return (try await backend.bytes(at: path), .ifMatches(tag))
    }

    /// Writes the file.
    package func postAnnouncement(
        _ bytes: [UInt8],
        at path: RemotePath,
        when condition: WriteCondition
    ) async throws -> Bool {
        do {
            try await backend.write(bytes, to: path, when: condition)
            return true
        } catch let error as RemoteError where [.alreadyExists, .preconditionFailed].contains(error.code) {
            return false
        }
    }
}

/// The default hooks of any backend.
package struct DefaultAnnouncementHooks: AnnouncementHooks {
    package let backend: any RemoteBackend

    package init(backend: any RemoteBackend) { self.backend = backend }
}
