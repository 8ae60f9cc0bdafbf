import Foundation
import RemoteStorage
import Testing

/// The backends that keep the same promises.
enum BackendKind: CaseIterable, CustomTestStringConvertible {
    case folder
    case memory

    var testDescription: String {
        switch self {
        case .folder: "a folder"
        case .memory: "memory"
        }
    }

    /// Runs `body` with an empty backend.
    func withBackend(_ body: (any RemoteBackend) async throws -> Void) async throws {
        switch self {
        case .memory: try await body(InMemoryBackend())
        case .folder: try await withTemporaryFolder { try await body(LocalFolderBackend(root: $0)) }
        }
    }
}

/// Runs `body` with an empty folder that is removed afterwards.
func withTemporaryFolder(_ body: (URL) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(component: "storesync-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await body(folder)
}

/// Runs `attempt` by as many tasks at once, and counts those that weren't told that the name is taken.
func winners(of attempts: Int, _ attempt: @escaping @Sendable (Int) async throws -> Void) async throws -> [Int] {
    try await withThrowingTaskGroup(of: Int?.self) { group in
        for number in 0..<attempts {
            group.addTask {
                do {
                    try await attempt(number)
                    return number
                } catch let error as RemoteError where error.code == .alreadyExists {
                    return nil
                }
            }
        }
        return try await group.reduce(into: []) { winners, number in winners += [number].compactMap(\.self) }
    }
}

/// Where a fixed number of tasks wait for each other.
actor Meeting {
    private var missing: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(of count: Int) {
        missing = count
    }

    func arrive() async {
        missing -= 1
        guard missing == 0 else { return await withCheckedContinuation { waiting.append($0) } }
        let all = waiting
        waiting = []
        for continuation in all { continuation.resume() }
    }
}

/// A failure that no code of ours knows.
struct BodyFailure: Error {}

extension RemoteContent {
    /// A chunk, then an error.
    static let failing = RemoteContent(length: nil) {
        var rest: [UInt8]? = [1, 2, 3]
        return {
            guard let chunk = rest.take() else { throw BodyFailure() }
            return chunk
        }
    }

    /// A chunk, then nothing until the task is cancelled, then the end as if all were well.
    ///
    /// - Parameter reached: Finished when the chunk was taken.
    /// - Returns: A content without a length.
    static func endless(reached: AsyncStream<Never>.Continuation) -> RemoteContent {
        let never = AsyncStream<Never>.makeStream()
        return RemoteContent(length: nil) {
            var rest: [UInt8]? = [1, 2, 3]
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

/// Expects `body` to throw a ``RemoteError`` of one code.
func expect(
    _ code: RemoteError.Code,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> some Any
) async {
    do {
        let result = try await body()
        Issue.record("\(code) was expected, not \(result)", sourceLocation: sourceLocation)
    } catch {
        #expect((error as? RemoteError)?.code == code, "\(error)", sourceLocation: sourceLocation)
    }
}
