package import Operations
package import RemoteStorage
package import StoreSync

/// Leaves a sealed note for each device of a diary: which generation is the newest.
///
/// A note never goes back to an older generation, also if several devices announce at the same time.
package actor Announcement: Operation {
    private let generation: Int
    private let document: DocumentRegistration
    private let devices: [RemoteIdentifier]
    private let hooks: any AnnouncementHooks

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - generation: The generation that is announced.
    ///   - document: The diary, which seals the notes.
    ///   - devices: The devices that get a note.
    ///   - backend: The storage; its own ``AnnouncementHooks`` are used if it has them.
    package init(
        of generation: Int,
        in document: DocumentRegistration,
        to devices: ClientList,
        backend: any RemoteBackend
    ) {
        self.generation = generation
        self.document = document
        self.devices = devices.clients.map(\.client)
        hooks = backend as? any AnnouncementHooks ?? DefaultAnnouncementHooks(backend: backend)
    }

    /// Leaves the notes, and returns how many devices got one.
    package func main(_ context: OperationContext) async throws -> Int {
        var count = 0
        for (index, device) in devices.enumerated() {
            try Task.checkCancellation()
            if try await announce(to: device) { count += 1 }
            context.reportProgress(Double(index + 1) / Double(devices.count))
        }
        return count
    }

    private func announce(to device: RemoteIdentifier) async throws -> Bool {
        let path = try Self.path(of: device, in: document)
        while true {
            let (former, condition) = try await hooks.fetchAnnouncement(at: path)
            if let former, try Self.generation(in: former, for: device, document) >= generation { return false }
            let note = document.seal(Array("\(generation)".utf8), as: Self.name(device))
            if try await hooks.postAnnouncement(note, at: path, when: condition) { return true }
        }
    }

    /// The generation that was last announced to a device; `nil` if none was.
    package static func read(
        by device: RemoteIdentifier,
        in document: DocumentRegistration,
        backend: any RemoteBackend
    ) async throws -> Int? {
        guard let note = try await backend.bytes(at: path(of: device, in: document)) else { return nil }
        return try generation(in: note, for: device, document)
    }

    private static func generation(
        in note: [UInt8],
        for device: RemoteIdentifier,
        _ document: DocumentRegistration
    ) throws -> Int {
        Int(String(decoding: try document.open(note, as: name(device)), as: UTF8.self)) ?? 0
    }

    private static func name(_ device: RemoteIdentifier) -> String { "announcement for \(device)" }

    private static func path(
        of device: RemoteIdentifier,
        in document: DocumentRegistration
    ) throws -> RemotePath {
        try RemotePath("announcements").appending(document.document).appending(device)
    }
}
