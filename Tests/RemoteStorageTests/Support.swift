import Foundation
import RemoteStorage
import Testing

/// Runs `body` with an empty folder that is removed afterwards.
func withTemporaryFolder(_ body: (URL) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(component: "storesync-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await body(folder)
}

/// An error that the package doesn't know.
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

    /// Returns a content that is a chunk, then waits until the task is cancelled, and then ends without an error.
    ///
    /// - Parameter reached: Finished after the chunk was read.
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
