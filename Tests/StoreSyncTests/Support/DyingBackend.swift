import RemoteStorage

/// A storage that a device can't reach any more from a certain request on, as if the device had died.
///
/// That request isn't sent, or its response is lost. No later request is sent.
actor DyingBackend: RemoteBackend {
    /// The moment at which the device dies.
    struct Death: Sendable, Hashable, CustomStringConvertible {
        /// The number of the request, from 0.
        var request: Int
        /// Whether the request is carried out.
        var isAfter: Bool

        var description: String { "\(isAfter ? "after" : "before") request \(request)" }
    }

    private let base: any RemoteBackend
    private var death: Death?
    private(set) var requests: [(name: String, isChange: Bool)] = []
    private(set) var isDead = false
    private var meeting: (isAt: @Sendable (Int, String) -> Bool, body: @Sendable () async -> Void)?

    nonisolated var identity: String { base.identity }

    init(_ base: any RemoteBackend) { self.base = base }

    /// Starts counting requests, and dies at `death`, or never if it's `nil`.
    func die(_ death: Death?) {
        requests = []
        self.death = death
    }

    /// Starts counting requests, and runs `body` before one of them, as if another device were faster.
    func meet(atRequest number: Int, _ body: @escaping @Sendable () async -> Void) {
        requests = []
        meeting = ({ request, _ in request == number }, body)
    }

    /// Runs `body` before the first request with such a name.
    func meet(at isMeeting: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () async -> Void) {
        meeting = ({ _, name in isMeeting(name) }, body)
    }

    private func observing<Result: Sendable>(
        _ name: String,
        isChange: Bool = false,
        _ body: () async throws -> Result
    ) async throws -> Result {
        let number = requests.count
        requests.append((name, isChange))
        // The other device continues if this device cancels its request.
        if meeting?.isAt(number, name) == true, let (_, body) = meeting.take() { await Task { await body() }.value }
        if death == Death(request: number, isAfter: false) { isDead = true }
        guard !isDead else { throw RemoteError(.unavailable, "The device is dead.") }
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        if death == Death(request: number, isAfter: true) { isDead = true }
        guard !isDead else { throw RemoteError(.unavailable, "The device is dead.") }
        return try result.get()
    }

    func capabilities() async throws -> RemoteCapabilities { try await base.capabilities() }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        try await observing("status of \(path)") { try await base.status(of: path) }
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try await observing("list of \(directory)") { try await base.list(directory) }
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await observing("read of \(path)") { try await base.read(path, range: range) }
    }

    func createDirectory(at path: RemotePath) async throws {
        try await observing("directory \(path)", isChange: true) { try await base.createDirectory(at: path) }
    }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await observing("write of \(path)", isChange: true) {
            try await base.write(content, to: path, when: condition)
        }
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await observing("copy to \(destination)", isChange: true) {
            try await base.copy(source, to: destination, when: condition)
        }
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await observing("move to \(destination)", isChange: true) { try await base.move(source, to: destination) }
    }

    func remove(_ path: RemotePath) async throws {
        try await observing("removal of \(path)", isChange: true) { try await base.remove(path) }
    }
}
