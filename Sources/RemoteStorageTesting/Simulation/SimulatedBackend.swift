import Foundation
public import OperationsTesting
public import RemoteStorage

/// A device's connection to a storage in memory, whose faults a seed decides.
///
/// Several connections to one ``/RemoteStorage/InMemoryBackend`` are several devices at one storage, each with faults of its own. In a
/// `Simulation`, whose seed decides the order of requests, the same two seeds give the same faults:
///
/// ```swift
/// try await Simulation.run(seed: 7) { simulation in
///     let backend = SimulatedBackend(.apache, faults: .network(0.1), seed: 7, clock: simulation.clock)
///     // The code under test, which synchronizes through the backend.
/// }
/// ```
///
/// Without faults it keeps every promise of ``/RemoteStorage/RemoteBackend``. Faults that a backend can detect are thrown as
/// ``/RemoteStorage/RemoteError/Code/unavailable``, like the error of a backend that has given up its retries.
///
/// Requests also throw the errors that ``/RemoteStorage/RemoteBackend`` names for them; `CancellationError` if the task is
/// cancelled; and what a content throws that is written. ``capabilities()`` throws nothing.
public actor SimulatedBackend: RemoteBackend {
    /// The ways in which a storage can vanish.
    public enum Disappearance: Sendable {
        /// The storage doesn't answer.
        case unreachable
        /// The storage answers, but is empty: a share that isn't mounted, a bucket that was created again.
        case empty
    }

    /// The storage's name, the same for all connections to it.
    public nonisolated let identity: String
    let server: SimulatedServer
    private let storage: InMemoryBackend
    private let clock: SimulatedClock?
    private var faults: FaultModel
    private var generator: SplitMix64
    private var disappearance: Disappearance?
    private var requestsUntilDeath: Int?
    /// The storage's states at this connection's last requests.
    private var past: [InMemoryBackend] = []
    /// Changes that are carried out once more, and the number of requests until then.
    private var duplicates: [(requests: Int, change: @Sendable (InMemoryBackend) async throws -> Void)] = []
    /// The number of requests that were sent.
    public private(set) var requestCount = 0
    /// The faults in order, each with its request.
    public private(set) var log: [String] = []

    /// Connects to a storage.
    ///
    /// - Parameters:
    ///   - server: The kind of the storage.
    ///   - faults: The storage's faults.
    ///   - seed: Decides which requests have faults.
    ///   - storage: The storage's contents, which several connections may share; `nil` for an empty storage.
    ///   - clock: The simulation's clock, for latency; without a clock, requests take no time.
    public init(
        _ server: SimulatedServer = .aws,
        faults: FaultModel = .none,
        seed: UInt64 = 0,
        storage: InMemoryBackend? = nil,
        clock: SimulatedClock? = nil
    ) {
        self.server = server
        self.faults = faults
        self.storage = storage ?? InMemoryBackend(identity: "simulated:\(server.name)")
        identity = self.storage.identity
        self.clock = clock
        generator = SplitMix64(seed: seed)
    }

    // MARK: Controls for a test

    /// Changes the storage's faults from now on.
    public func set(_ faults: FaultModel) { self.faults = faults }

    /// Makes the storage vanish, for this connection, until ``reappear()``.
    public func vanish(_ how: Disappearance) { disappearance = how }

    /// Makes the storage reappear.
    public func reappear() { disappearance = nil }

    /// Makes the device die: it sends this many more requests, and then none.
    public func die(afterRequests count: Int) { requestsUntilDeath = count }

    /// Brings the device back to life.
    public func revive() { requestsUntilDeath = nil }

    // MARK: Requests

    /// Returns the capabilities of this kind of storage.
    public func capabilities() async throws -> RemoteCapabilities { server.capabilities }

    /// Returns the item at a path.
    public func status(of path: RemotePath) async throws -> RemoteItem? {
        let (view, _) = try await view(for: "status of \(path)", faults.lateVisibility)
        return try await view.status(of: path).map(skewed)
    }

    /// Returns the items in a directory.
    public func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        let (view, _) = try await view(for: "list of \(directory)", faults.staleListing)
        return try await view.list(directory)?.map(skewed)
    }

    /// Returns the bytes of a file.
    public func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        let (view, request) = try await view(for: "read of \(path)", faults.lateVisibility)
        if range == nil, let clock, chance(faults.lateOpening), disappearance == nil {
            return try await openLate(path, clock, request)
        }
        guard let content = try await view.read(path, range: range) else { return nil }
        guard chance(faults.abortedStream) else { return content }
        note("aborted stream", in: request)
        let bytes = try await content.bytes(upTo: .max)
        let cut = Int.random(in: 0...max(bytes.count - 1, 0), using: &generator)
        return aborted(bytes.prefix(cut), content.length, path)
    }

    /// Reads like a server that reads a file's length before it opens the file: another device may replace it in between.
    private func openLate(
        _ path: RemotePath,
        _ clock: SimulatedClock,
        _ request: String
    ) async throws -> RemoteContent? {
        let size = try await storage.status(of: path)?.size
        try await clock.sleep(for: faults.latency.upperBound)
        guard let content = try await storage.read(path), let size, content.length != size else {
            return try await storage.read(path)
        }
        note("has the former version's length", in: request)
        let bytes = try await content.bytes(upTo: .max)
        return bytes.count > size ? RemoteContent(Array(bytes.prefix(Int(size)))) : aborted(bytes[...], size, path)
    }

    private func aborted(_ bytes: ArraySlice<UInt8>, _ length: Int64?, _ path: RemotePath) -> RemoteContent {
        RemoteContent(length: length) {
            var rest: [UInt8]? = Array(bytes)
            return {
                guard let chunk = rest.take() else {
                    throw RemoteError(
                        .unavailable,
                        "“\(path)” broke off after \(bytes.count) bytes. Try again.",
                        path: path
                    )
                }
                return chunk
            }
        }
    }

    /// Creates a directory and its missing parents.
    public func createDirectory(at path: RemotePath) async throws {
        try await change("directory \(path)") { try await $0.createDirectory(at: path) }
    }

    /// Writes a file.
    @discardableResult
    public func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        if case .ifMatches = condition, !server.capabilities.contains(.conditionalReplace) {
            throw RemoteError.lacks(.conditionalReplace, at: path)
        }
        let name = "write of \(path)"
        let isAtomic = server.capabilities.contains(.atomicReplace)
        if !isAtomic, condition == .always, chance(faults.tornWrite), disappearance == nil {
            let request = try await begin(name)
            let bytes = try await content.bytes(upTo: .max)
            let part = Array(bytes.prefix(Int.random(in: 0...max(bytes.count - 1, 0), using: &generator)))
            try await storage.write(part, to: path, when: .always)
            throw unavailable("torn write", in: request)
        }
        let exclusive = server.capabilities.contains(.exclusiveCreate)
        let put = { @Sendable [storage] (target: InMemoryBackend, content: RemoteContent) in
            guard condition == .ifAbsent, !exclusive, target === storage else {
                return try await target.write(content, to: path, when: condition)
            }
            // Like a server that checks first and writes later: another device may write in between.
            if try await storage.status(of: path) != nil { throw RemoteError.alreadyExists(path) }
            let bytes = try await content.bytes(upTo: .max)
            return try await storage.write(bytes, to: path, when: .always)
        }
        // The duplicate sends recorded bytes, because the content mustn't be read after the write has ended.
        let sent = SentBytes()
        let item = try await change(name) {
            try await put($0, sent.recording(content))
        } again: {
            _ = try await put($0, RemoteContent(await sent.bytes))
        }
        return skewed(item)
    }

    /// Copies a file.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        if case .ifMatches = condition, !server.capabilities.contains(.conditionalReplace) {
            throw RemoteError.lacks(.conditionalReplace, at: destination)
        }
        try await change("copy to \(destination)") { try await $0.copy(source, to: destination, when: condition) }
    }

    /// Moves a file or directory; file by file if the storage can't move it in one step.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        let name = "move to \(destination)"
        guard !server.movesAtOnce, chance(faults.lostReply), disappearance == nil else {
            return try await change(name) { try await $0.move(source, to: destination) }
        }
        let request = try await begin(name)
        // The move stops in the middle: some files exist at both paths.
        let files = try await storage.copy().files(in: source)
        guard try await storage.status(of: destination) == nil else { throw RemoteError.alreadyExists(destination) }
        for file in files.prefix(files.count / 2) {
            let rest = file.components.dropFirst(source.components.count)
            let copy = try RemotePath(components: destination.components + rest)
            try await storage.copy(file, to: copy, when: .always)
        }
        throw unavailable("half a move", in: request)
    }

    /// Removes a file, or a directory with its contents.
    public func remove(_ path: RemotePath) async throws {
        try await change("removal of \(path)") { try await $0.remove(path) }
    }

    // MARK: Faults

    private func chance(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &generator) < probability
    }

    private func note(_ fault: String, in request: String) { log.append("\(request): \(fault)") }

    private func unavailable(_ fault: String, in request: String, cause: (any Error)? = nil) -> RemoteError {
        note(fault, in: request)
        return RemoteError(.unavailable, "The storage can't be reached (\(fault)). Try again.", cause: cause)
    }

    private func skewed(_ item: RemoteItem) -> RemoteItem {
        var item = item
        item.modified = item.modified.map { $0 + faults.clockSkew / .seconds(1) }
        return item
    }

    /// Does what precedes every request: death, disappearance, latency, delayed duplicates, loss and refusal.
    ///
    /// Returns the request's number and name, for the log.
    private func begin(_ name: String) async throws -> String {
        try Task.checkCancellation()
        requestCount += 1
        let request = "\(requestCount) \(name)"
        if let count = requestsUntilDeath {
            guard count > 0 else { throw unavailable("the device is dead", in: request) }
            requestsUntilDeath = count - 1
        }
        if disappearance == .unreachable { throw unavailable("the storage has vanished", in: request) }
        // Drawn before the latency. A fault of probability 0 draws no number, so the other faults of a seed change when a
        // probability changes from 0 or to 0.
        let delay = Double.random(in: 0..<1, using: &generator)
        let (isLost, isRefused) = (chance(faults.lostRequest), chance(faults.refusal))
        if let clock {
            let latency = faults.latency.lowerBound + (faults.latency.upperBound - faults.latency.lowerBound) * delay
            if latency > .zero { try await clock.sleep(for: latency) }
        }
        for index in duplicates.indices { duplicates[index].requests -= 1 }
        let due = duplicates.filter { $0.requests <= 0 }
        duplicates.removeAll { $0.requests <= 0 }
        // A late duplicate may be refused. Its error is ignored, because no client waits for its answer.
        for duplicate in due { try? await duplicate.change(storage) }
        if isLost { throw unavailable("the request was lost", in: request) }
        if isRefused, let refusal = faults.refusals.randomElement(using: &generator) {
            throw unavailable("\(refusal)", in: request, cause: refusal)
        }
        return request
    }

    /// Returns the storage as this request sees it, and the request's number and name.
    private func view(for name: String, _ staleness: Double) async throws -> (InMemoryBackend, request: String) {
        let request = try await begin(name)
        if disappearance == .empty { return (InMemoryBackend(identity: identity), request) }
        guard faults.staleListing > 0 || faults.lateVisibility > 0 else { return (storage, request) }
        let copy = await storage.copy()
        past = past.suffix(4) + [copy]
        guard chance(staleness), let view = past.randomElement(using: &generator) else { return (storage, request) }
        note("answered from the past", in: request)
        return (view, request)
    }

    /// Carries out a change; with faults twice, or without an answer.
    private func change<Result: Sendable>(
        _ name: String,
        _ body: @escaping @Sendable (InMemoryBackend) async throws -> Result,
        again: (@Sendable (InMemoryBackend) async throws -> Void)? = nil
    ) async throws -> Result {
        let request = try await begin(name)
        let (isDuplicated, isReplyLost) = (chance(faults.duplicateDelivery), chance(faults.lostReply))
        guard disappearance == nil else { return try await body(InMemoryBackend(identity: identity)) }
        let result = try await body(storage)
        if isDuplicated {
            note("is delivered twice", in: request)
            let requests = Int.random(in: 1...10, using: &generator)
            duplicates.append((requests, again ?? { _ = try await body($0) }))
        }
        if isReplyLost { throw unavailable("the reply was lost", in: request) }
        return result
    }
}

extension InMemoryBackend {
    /// Returns the paths of all files in a directory, at any depth; for a file, its own path.
    fileprivate func files(in path: RemotePath) async throws -> [RemotePath] {
        guard let item = try await status(of: path) else { return [] }
        guard item.kind == .directory else { return [path] }
        var files: [RemotePath] = []
        for item in try await list(path) ?? [] { files += try await self.files(in: path.appending(item.name)) }
        return files
    }
}

/// The bytes of a content that were sent.
private actor SentBytes {
    private(set) var bytes: [UInt8] = []

    private func append(_ chunk: [UInt8]) { bytes += chunk }
    private func begin() { bytes = [] }

    /// Returns the same content, and records its bytes while it is read.
    nonisolated func recording(_ content: RemoteContent) -> RemoteContent {
        RemoteContent(length: content.length) {
            var chunks = content.makeAsyncIterator()
            var hasBegun = false
            return {
                if !hasBegun { await self.begin() }
                hasBegun = true
                let chunk = try await chunks.next()
                if let chunk { await self.append(chunk) }
                return chunk
            }
        }
    }
}
