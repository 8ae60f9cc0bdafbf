/// The maximum number of readings of a file that other clients keep replacing.
private let maximumReadings = 100

extension RemoteBackend {
    /// Returns the bytes of a file, which each pass reads again.
    package nonisolated func rereading(_ path: RemotePath, length: Int64) -> RemoteContent {
        RemoteContent(length: length) {
            var iterator: RemoteContent.AsyncIterator?
            return {
                if iterator == nil {
                    guard let content = try await self.read(path) else { throw RemoteError.notFound(path) }
                    iterator = content.makeAsyncIterator()
                }
                return try await iterator?.next()
            }
        }
    }
}

/// Short forms for small files and for whole files.
extension RemoteBackend {
    /// Opens a file for reading from its beginning to its end.
    ///
    /// - Parameter path: The file.
    /// - Returns: The bytes; `nil` if the file doesn't exist.
    /// - Throws: What ``RemoteBackend/read(_:range:)`` throws.
    public func read(_ path: RemotePath) async throws -> RemoteContent? {
        try await read(path, range: nil)
    }

    /// Reads a small file into memory: one version of it, on every backend.
    ///
    /// Without ``RemoteCapabilities/consistentRead``, this method compares the file's size with the number of bytes that it
    /// read, and reads again if they differ.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - limit: The maximum number of bytes.
    /// - Returns: The bytes; `nil` if the file doesn't exist.
    /// - Throws: ``RemoteError/Code/wrongLength`` if there are more, and what ``RemoteBackend/read(_:range:)`` throws.
    public func bytes(at path: RemotePath, upTo limit: Int = 4 << 20) async throws -> [UInt8]? {
        do {
            for _ in 0..<maximumReadings {
                guard let content = try await read(path) else { return nil }
                if try await knownCapabilities()?.contains(.consistentRead) ?? false {
                    return try await content.bytes(upTo: limit)
                }
                do {
                    let bytes = try await content.bytes(upTo: limit)
                    if try await status(of: path)?.size == Int64(bytes.count) { return bytes }
                } catch let error as RemoteError where error.code == .unavailable {
                    // Another client may have replaced the file by a shorter one.
                    guard try await status(of: path)?.size != content.length else { throw error }
                }
            }
            throw RemoteError(.unavailable, "“\(path)” is replaced all the time. Try again later.", path: path)
        } catch var error as RemoteError {
            error.path = error.path ?? path
            throw error
        }
    }

    /// Writes a small file from memory.
    ///
    /// - Parameters:
    ///   - bytes: The bytes.
    ///   - path: The file.
    ///   - condition: The condition for the write.
    /// - Returns: The file that was written.
    /// - Throws: What ``RemoteBackend/write(_:to:when:)-(RemoteContent,_,_)`` throws.
    @discardableResult
    public func write(
        _ bytes: [UInt8],
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try await write(RemoteContent(bytes), to: path, when: condition)
    }
}
