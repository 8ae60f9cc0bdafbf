import AsyncAlgorithms
import NIOCore
import RemoteStorage
import ThreadSupport

/// Leads a content into a request's body, as fast as the server takes it.
struct UploadPipe: Sendable {
    let channel = AsyncThrowingChannel<ByteBuffer, any Error>()
    private let content: RemoteContent
    private let path: RemotePath
    private let failed = Locked<(any Error)?>(nil)

    init(_ content: RemoteContent, _ path: RemotePath) {
        self.content = content
        self.path = path
    }

    /// What the content failed with.
    var failure: (any Error)? { failed.withLock { $0 } }

    /// Passes everything on; returns early when the task is cancelled.
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

    /// The server would take what is there for all.
    private func check(_ count: Int64, isOver: Bool) throws {
        guard let length = content.length, isOver ? count != length : count > length else { return }
        throw RemoteError.wrongLength(path, announced: length, actual: count)
    }
}
