import RemoteStorage

/// A request to a storage, as tests count and name requests.
struct ObservedRequest: Sendable {
    enum Kind: String, CaseIterable {
        case status = "status of"
        case list = "list of"
        case read = "read of"
        case write = "write of"
        case directory
        case copy = "copy to"
        case move = "move to"
        case removal = "removal of"
    }

    let kind: Kind
    let path: RemotePath

    var name: String { "\(kind.rawValue) \(path)" }
    /// Whether the request changes something.
    var isChange: Bool { ![.status, .list, .read].contains(kind) }
}

/// A storage between a test and another one: every request but those for capabilities goes through `observe`.
protocol ObservingBackend: RemoteBackend {
    nonisolated var base: any RemoteBackend { get }

    /// Sends a request to `base` by `send`, and returns the answer.
    func observe<Answer: Sendable>(
        _ request: ObservedRequest,
        _ send: () async throws -> Answer
    ) async throws -> Answer
}

extension ObservingBackend {
    nonisolated var identity: String { base.identity }

    func capabilities() async throws -> RemoteCapabilities { try await base.capabilities() }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        try await observe(ObservedRequest(kind: .status, path: path)) { try await base.status(of: path) }
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try await observe(ObservedRequest(kind: .list, path: directory)) { try await base.list(directory) }
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await observe(ObservedRequest(kind: .read, path: path)) { try await base.read(path, range: range) }
    }

    func createDirectory(at path: RemotePath) async throws {
        try await observe(ObservedRequest(kind: .directory, path: path)) { try await base.createDirectory(at: path) }
    }

    @discardableResult
    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await observe(ObservedRequest(kind: .write, path: path)) {
            try await base.write(content, to: path, when: condition)
        }
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await observe(ObservedRequest(kind: .copy, path: destination)) {
            try await base.copy(source, to: destination, when: condition)
        }
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await observe(ObservedRequest(kind: .move, path: destination)) {
            try await base.move(source, to: destination)
        }
    }

    func remove(_ path: RemotePath) async throws {
        try await observe(ObservedRequest(kind: .removal, path: path)) { try await base.remove(path) }
    }
}
