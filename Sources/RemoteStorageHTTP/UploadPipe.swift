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
    private let sending = Locked<(slice: Int, isWaiting: Bool)>((0, false))

    /// The maximum number of bytes that are passed on at once.
    static let sliceBytes = 1 << 18

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
                var rest = ByteBuffer(bytes: chunk)
                while rest.readableBytes > 0,
                    let slice = rest.readSlice(length: min(rest.readableBytes, Self.sliceBytes))
                {
                    await send(slice)
                }
            }
            try Task.checkCancellation()
            try check(count, isOver: true)
            channel.finish()
        } catch {
            failed.withLock { $0 = error }
            channel.fail(error)
        }
    }

    /// The number of the slice that the server has yet to accept; `nil` while the content is read.
    ///
    /// The first slice doesn't count: it also waits for the connection, which has a limit of its own.
    var waitingSlice: Int? { sending.withLock { $0.isWaiting && $0.slice > 1 ? $0.slice : nil } }

    private func send(_ slice: ByteBuffer) async {
        sending.withLock { $0 = ($0.slice + 1, true) }
        await channel.send(slice)
        sending.withLock { $0.isWaiting = false }
    }

    /// Throws if the content is longer or shorter than announced: the server would store a truncated file.
    private func check(_ count: Int64, isOver: Bool) throws {
        guard let length = content.length, isOver ? count != length : count > length else { return }
        throw RemoteError.wrongLength(path, announced: length, actual: count)
    }
}
