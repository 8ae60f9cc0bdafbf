import RemoteStorage
import ThreadSupport

/// A backend under test, and short forms for testing it.
struct BackendTrial: Sendable {
    /// What happened instead of the promise.
    struct Violation: Error {
        let words: String
    }

    /// The error that a check's content throws, a type that no backend knows.
    struct ContentFailure: Error {}

    let backend: any RemoteBackend
    let claimed: RemoteCapabilities
    let effort: BackendCheck.Effort

    // MARK: Requirements

    func require(_ condition: Bool, _ words: @autoclosure () -> String) throws {
        guard condition else { throw Violation(words: words()) }
    }

    func requireEqual<Value: Equatable>(_ value: Value, _ expected: Value, _ subject: String) throws {
        try require(value == expected, "\(subject): \(short(value)), not \(short(expected))")
    }

    /// Requires that `body` throws a ``RemoteError`` of one of these codes.
    func requireError(
        _ codes: RemoteError.Code...,
        of subject: String,
        _ body: () async throws -> some Any
    ) async throws {
        let expected = codes.map(\.description).joined(separator: " or ")
        do {
            _ = try await body()
        } catch let error as RemoteError where codes.contains(error.code) {
            return
        } catch {
            throw Violation(words: "\(subject) threw \(error), not \(expected)")
        }
        throw Violation(words: "\(subject) succeeded instead of throwing \(expected)")
    }

    /// Requires that a file holds these bytes.
    func requireBytes(_ bytes: [UInt8]?, at path: RemotePath, _ subject: String) async throws {
        let found = try await backend.bytes(at: path, upTo: 1 << 26)
        try require(found == bytes, "\(subject): “\(path)” holds \(short(found)), not \(short(bytes))")
    }

    /// Requires that a directory holds exactly these names.
    func requireNames(_ names: [String]?, in path: RemotePath, _ subject: String) async throws {
        let found = try await backend.list(path)?.map(\.name)
        try require(found == names, "\(subject): “\(path)” lists \(short(found)), not \(short(names))")
    }

    /// Requires that a storage contains nothing, except perhaps this empty directory.
    func requireNothingVisible(in directory: RemotePath, _ subject: String) async throws {
        try requireEqual(try await backend.list(directory)?.map(\.name) ?? [], [], "the list \(subject)")
        let others = try await backend.list(.root)?.map(\.name).filter { $0 != directory.lastComponent }
        try requireEqual(others, [], "the other names in the root \(subject)")
    }

    /// Requires that `body` throws the error of the check's content.
    func requireContentFailure(of subject: String, _ body: () async throws -> some Any) async throws {
        do {
            _ = try await body()
        } catch is ContentFailure {
            return
        } catch {
            throw Violation(words: "\(subject) threw \(error) instead of its content's error")
        }
        throw Violation(words: "\(subject) succeeded although its content failed")
    }

    private func short(_ value: some Any) -> String {
        if let bytes = value as? [UInt8], bytes.count > 16 { return "\(bytes.count) bytes from \(bytes.prefix(8)) on" }
        return String("\(value)".prefix(400))
    }

    // MARK: Races

    /// Runs `attempt` concurrently in as many tasks as the effort says.
    ///
    /// Returns the numbers of the tasks whose attempt wasn't refused by its condition. The others don't wait at `meeting` for
    /// an attempt that was refused before it arrived there.
    func winners(
        at meeting: Meeting? = nil,
        _ attempt: @escaping @Sendable (Int) async throws -> Void
    ) async throws -> [Int] {
        let results = try await (0..<effort.racers).concurrentMap(atMost: effort.racers) { number -> Int? in
            do {
                try await attempt(number)
                return number
            } catch let error as RemoteError where [.alreadyExists, .preconditionFailed].contains(error.code) {
                meeting?.note(number)
                return nil
            }
        }
        return results.compactMap(\.self)
    }
}

/// A barrier at which tasks wait for each other, and at which a task may arrive more than once.
final class Meeting: Sendable {
    private struct State {
        var arrived: Set<Int> = []
        var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
        var nextTicket = 0
    }

    private let size: Int
    private let state = Locked(State())

    init(of size: Int) {
        self.size = size
    }

    /// Waits until all tasks have arrived.
    func arrive(_ number: Int) async throws {
        note(number)
        let ticket = state.withLock { state in
            state.nextTicket += 1
            return state.nextTicket
        }
        try await waitCancellably(for: "the other requests of a race") { continuation in
            state.withLock { state in
                guard state.arrived.count < size else { return false }
                state.waiting[ticket] = continuation
                return true
            }
        } remove: { [self] in
            state.withLock { $0.waiting.removeValue(forKey: ticket) }
        }
    }

    /// Counts a task as arrived, without waiting.
    func note(_ number: Int) {
        let released = state.withLock { state -> [CheckedContinuation<Void, any Error>] in
            state.arrived.insert(number)
            guard state.arrived.count == size else { return [] }
            defer { state.waiting = [:] }
            return state.waiting.sorted { $0.key < $1.key }.map(\.value)
        }
        for continuation in released { continuation.resume() }
    }
}

extension RemoteContent {
    /// Creates a content of chunks of one size, with or without an announced length.
    init(_ bytes: [UInt8], chunkSize: Int, announces length: Bool = true) {
        self.init(length: length ? Int64(bytes.count) : nil) {
            var offset = 0
            return {
                guard offset < bytes.count else { return nil }
                defer { offset += chunkSize }
                return Array(bytes[offset..<Swift.min(offset + chunkSize, bytes.count)])
            }
        }
    }

    /// Creates a content of two chunks, and runs `body` between them.
    init(_ first: [UInt8], then body: @escaping @Sendable () async throws -> Void, _ second: [UInt8]) {
        self.init(length: Int64(first.count + second.count)) {
            var step = 0
            return {
                step += 1
                switch step {
                case 1: return first
                case 2:
                    try await body()
                    return second
                default: return nil
                }
            }
        }
    }

    /// Returns a content that is a chunk, then an error.
    static func failing(after count: Int) -> RemoteContent {
        RemoteContent([UInt8](repeating: 7, count: count), then: { throw BackendTrial.ContentFailure() }, [7])
    }

    /// Returns a content that is a chunk, then waits until the task is cancelled, and then ends without an error.
    static func endless(after count: Int, reached: AsyncStream<Never>.Continuation) -> RemoteContent {
        let never = AsyncStream<Never>.makeStream()
        return RemoteContent(length: nil) {
            var rest: [UInt8]? = [UInt8](repeating: 7, count: count)
            return {
                if let chunk = rest.take() { return chunk }
                reached.finish()
                for await _ in never.stream {}
                never.continuation.finish()
                return nil
            }
        }
    }
}

/// Returns pseudorandom bytes, which differ between positions and between seeds.
func pattern(_ count: Int, seed: Int = 0) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
        var value = UInt32(truncatingIfNeeded: seed &* 2_654_435_761 &+ 12345)
        for index in 0..<count {
            value = value &* 1_664_525 &+ 1_013_904_223
            buffer[index] = UInt8(truncatingIfNeeded: value >> 24)
        }
        initialized = count
    }
}
