package import RemoteStorage
import ThreadSupport

extension RemoteContent {
    /// Creates a content that can be read only once, because the answer that it comes from arrives only once.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - length: The number of bytes; `nil` if it isn't known.
    ///   - makeIterator: Starts the only pass. Another pass throws ``RemoteError/Code/unsupported``.
    package init(
        onceFrom path: RemotePath,
        length: Int64?,
        _ makeIterator: @escaping @Sendable () -> () async throws -> [UInt8]?
    ) {
        let isTaken = Locked(false)
        self.init(length: length) {
            let isSecond = isTaken.withLock { isTaken in
                defer { isTaken = true }
                return isTaken
            }
            guard isSecond else { return makeIterator() }
            return {
                throw RemoteError(
                    .unsupported,
                    "“\(path)” arrives from its server only once. Open it again for another pass, or read it into a file first.",
                    path: path
                )
            }
        }
    }
}
