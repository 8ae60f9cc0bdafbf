import RemoteStorage
import ThreadSupport

/// A content whose bytes are counted while they are sent, because a content may not know its length in advance.
struct CountedContent: Sendable {
    /// The content, which counts.
    let content: RemoteContent
    private let counts: Locked<Counts>

    /// The numbers of one pass.
    private struct Counts {
        var pass = 0
        var bytes: Int64 = 0
        var isOver = false
    }

    init(_ original: RemoteContent) {
        let counts = Locked(Counts())
        self.counts = counts
        content = RemoteContent(length: original.length) {
            let pass = counts.withLock { counts in
                counts = Counts(pass: counts.pass + 1)
                return counts.pass
            }
            var source = original.makeAsyncIterator()
            return {
                let chunk = try await source.next()
                counts.withLock { counts in
                    // The pass of an earlier attempt doesn't count.
                    guard counts.pass == pass else { return }
                    counts.bytes += Int64(chunk?.count ?? 0)
                    counts.isOver = chunk == nil
                }
                return chunk
            }
        }
    }

    /// The number of bytes of the last pass; `nil` if it hasn't reached the content's end.
    var sentBytes: Int64? { counts.withLock { $0.isOver ? $0.bytes : nil } }
}
