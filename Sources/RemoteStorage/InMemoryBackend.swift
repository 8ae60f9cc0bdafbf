public import Foundation

/// A storage in memory, for tests and previews.
///
/// It keeps all rules of ``RemoteBackend`` and gives all guarantees. The parameter `capabilities` only sets what it claims,
/// so that a test can check an operation without a capability. It never blocks and uses no executor of its own.
///
/// A request throws only the errors that ``RemoteBackend`` names for it in particular;
/// `CancellationError` if the task is cancelled; and what a content throws that is written. ``capabilities()`` throws nothing.
public actor InMemoryBackend: RemoteBackend {
    private struct Node {
        var item: RemoteItem
        var bytes: [UInt8] = []
        /// The contents of a directory, by name.
        var children: [String: Node] = [:]

        /// The node at a path relative to this one.
        subscript(components: ArraySlice<String>) -> Node? {
            get { components.first.map { children[$0]?[components.dropFirst()] } ?? self }
            set {
                guard let name = components.first else { return }
                if components.count == 1 {
                    children[name] = newValue
                } else {
                    children[name]?[components.dropFirst()] = newValue
                }
            }
        }
    }

    /// The name that was passed to the initializer.
    public nonisolated let identity: String
    private let claimed: RemoteCapabilities
    private let now: @Sendable () -> Date
    private var root: Node
    private var lastTag = 0
    /// The bytes that interrupted writes have transferred.
    private var kept: [RemotePath: [UInt8]] = [:]

    /// Creates an empty storage.
    ///
    /// - Parameters:
    ///   - identity: The storage's name, which must be unique among several.
    ///   - capabilities: The capabilities that it claims.
    ///   - now: The clock for ``RemoteItem/modified``.
    public init(
        identity: String = "memory:",
        capabilities: RemoteCapabilities = .all.subtracting(.contentTags),
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        let root = Node(item: RemoteItem(name: "", kind: .directory, modified: now()))
        self.init(identity: identity, capabilities: capabilities, now: now, root: root)
    }

    private init(
        identity: String,
        capabilities: RemoteCapabilities,
        now: @escaping @Sendable () -> Date,
        root: Node
    ) {
        self.identity = identity
        claimed = capabilities
        self.now = now
        self.root = root
    }

    /// Returns another storage with the current contents of this one.
    package func copy() -> InMemoryBackend {
        InMemoryBackend(identity: identity, capabilities: claimed, now: now, root: root)
    }

    private subscript(path: RemotePath) -> Node? {
        get { root[path.components[...]] }
        set { root[path.components[...]] = newValue }
    }

    /// The capabilities that the storage claims.
    public func capabilities() async throws -> RemoteCapabilities { claimed }

    /// Returns the item at a path.
    public func status(of path: RemotePath) async throws -> RemoteItem? {
        try Task.checkCancellation()
        return self[path]?.item
    }

    /// Returns the items in a directory.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try Task.checkCancellation()
        guard let node = self[directory] else { return nil }
        guard node.item.kind == .directory else { throw RemoteError.notADirectory(directory) }
        return node.children.values.map(\.item).sorted { $0.name < $1.name }
    }

    /// Creates a directory and its missing parents.
    public func createDirectory(at path: RemotePath) async throws {
        try Task.checkCancellation()
        try makeDirectories(to: path)
    }

    /// Returns the current bytes of a file.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try Task.checkCancellation()
        guard let node = self[path] else { return nil }
        guard node.item.kind == .file else { throw RemoteError.notAFile(path) }
        let range = range.map { Int(clamping: $0.lowerBound)..<Int(clamping: $0.upperBound) }
        return RemoteContent(Array(node.bytes[(range ?? node.bytes.indices).clamped(to: node.bytes.indices)]))
    }

    /// Collects the content, then stores it at the path in one step.
    @discardableResult
    public func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await collect(content, to: path, when: condition)
    }

    /// Collects the content, and keeps the received bytes if the content fails and the storage claims to resume writes.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        let former = kept.removeValue(forKey: path) ?? []
        let rest = try await rest(Int64(former.count))
        precondition((0...Int64(former.count)).contains(rest.offset), "the rest follows bytes that aren't kept")
        let beginning = Array(former.prefix(Int(rest.offset)))
        return try await collect(rest.content, after: beginning, to: path, when: condition) { [claimed] bytes in
            if claimed.contains(.resumableWrite) { self.kept[path] = bytes }
        }
    }

    private func collect(
        _ content: RemoteContent,
        after beginning: [UInt8] = [],
        to path: RemotePath,
        when condition: WriteCondition,
        keeping keep: ([UInt8]) -> Void = { _ in }
    ) async throws -> RemoteItem {
        try Task.checkCancellation()
        guard path != .root else { throw RemoteError.rootIsFixed() }
        try condition.check(self[path]?.item, at: path)
        var bytes = beginning
        do {
            for try await chunk in content {
                try Task.checkCancellation()
                bytes += chunk
            }
        } catch {
            if !(error is CancellationError) { keep(bytes) }
            throw error
        }
        if let length = content.length, length != bytes.count - beginning.count {
            throw RemoteError.wrongLength(path, announced: length, actual: Int64(bytes.count - beginning.count))
        }
        try Task.checkCancellation()
        // Other tasks may have written while the content was read. From here to the end nothing suspends.
        return try put(bytes, at: path, when: condition)
    }

    /// Copies a file.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try Task.checkCancellation()
        guard let node = self[source] else { throw RemoteError.notFound(source) }
        guard node.item.kind == .file else { throw RemoteError.notAFile(source) }
        try put(node.bytes, at: destination, when: condition)
    }

    /// Moves a file or directory.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try Task.checkCancellation()
        guard source != .root, let parent = destination.parent else { throw RemoteError.rootIsFixed() }
        guard var node = self[source] else { throw RemoteError.notFound(source) }
        try source.refuseMoveIntoItself(to: destination)
        guard self[destination] == nil else { throw RemoteError.alreadyExists(destination) }
        try makeDirectories(to: parent)
        node.item.name = destination.lastComponent ?? ""
        (self[source], self[destination]) = (nil, node)
    }

    /// Removes a file, or a directory with its contents.
    public func remove(_ path: RemotePath) async throws {
        try Task.checkCancellation()
        guard path != .root else { throw RemoteError.rootIsFixed() }
        self[path] = nil
    }

    private func makeDirectories(to path: RemotePath) throws {
        if let node = self[path] {
            guard node.item.kind == .directory else { throw RemoteError.notADirectory(path) }
            return
        }
        if let parent = path.parent { try makeDirectories(to: parent) }
        self[path] = Node(item: RemoteItem(name: path.lastComponent ?? "", kind: .directory, modified: now()))
    }

    @discardableResult
    private func put(_ bytes: [UInt8], at path: RemotePath, when condition: WriteCondition) throws -> RemoteItem {
        guard let parent = path.parent, let name = path.lastComponent else { throw RemoteError.rootIsFixed() }
        try condition.check(self[path]?.item, at: path)
        try makeDirectories(to: parent)
        lastTag += 1
        let tag = RemoteTag(String(lastTag))
        let item = RemoteItem(name: name, kind: .file, size: Int64(bytes.count), modified: now(), tag: tag)
        self[path] = Node(item: item, bytes: bytes)
        return item
    }
}
