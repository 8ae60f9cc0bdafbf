import AsyncAlgorithms
import NIOCore
import RemoteStorage
import ThreadSupport

/// Passes a content on to a request's body, as fast as the server accepts it.
struct UploadPipe: Sendable {
    let channel = AsyncThrowingChannel<ByteBuffer, any Error>()
    private let content: RemoteContent
    private let path: RemotePath
    private let failed = Locked<(any Error)?>(nil)

    init(_ content: RemoteContent, _ path: RemotePath) {
        self.content = content
        self.path = path
    }

    /// The error that the content threw.
    var failure: (any Error)? { failed.withLock { $0 } }

    /// Passes all chunks on; returns early when the task is cancelled.
    func pump() async {
        do {
            var count: Int64 = 0
            for try await chunk in content {
                try Task.checkCancellation()
                count += Int64(chunk.count)
                try check(count, isOver: false)
                if !chunk.isEmpty { await channel.send(ByteBuffer(bytes: chunk)) }
            }
            try Task.checkCancellation()
            try check(count, isOver: true)
            channel.finish()
        } catch {
            failed.withLock { $0 = error }
            channel.fail(error)
        }
    }

    /// Throws if the content is longer or shorter than announced: the server would store a truncated file.
    private func check(_ count: Int64, isOver: Bool) throws {
        guard let length = content.length, isOver ? count != length : count > length else { return }
        throw RemoteError.wrongLength(path, announced: length, actual: count)
    }
}
