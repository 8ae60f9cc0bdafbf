extension RemoteBackend {
    /// Asks for the capabilities, which most backends know.
    public func knownCapabilities() async throws -> RemoteCapabilities? {
        try await capabilities()
    }
}

/// How often a file that others replace is read before that is an error.
private let mostReadings = 100

/// Short forms for small files and for whole ones.
extension RemoteBackend {
    /// Opens a file to be read from its beginning to its end.
    ///
    /// - Parameter path: The file.
    /// - Returns: The bytes; `nil` if the file isn't there.
    /// - Throws: What ``RemoteBackend/read(_:range:)`` throws.
    public func read(_ path: RemotePath) async throws -> RemoteContent? {
        try await read(path, range: nil)
    }

    /// Reads a small file into memory: one version of it, on every backend.
    ///
    /// Without ``RemoteCapabilities/consistentRead``, this looks whether the file is still as long as what was read, and reads
    /// again if it isn't.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - limit: How many bytes are accepted.
    /// - Returns: The bytes; `nil` if the file isn't there.
    /// - Throws: ``RemoteError/Code/wrongLength`` if there are more, and what ``RemoteBackend/read(_:range:)`` throws.
    public func bytes(at path: RemotePath, upTo limit: Int = 4 << 20) async throws -> [UInt8]? {
        do {
            for _ in 0..<mostReadings {
                guard let content = try await read(path) else { return nil }
                if try await knownCapabilities()?.contains(.consistentRead) ?? false {
                    return try await content.bytes(upTo: limit)
                }
                do {
                    let bytes = try await content.bytes(upTo: limit)
                    if try await status(of: path)?.size == Int64(bytes.count) { return bytes }
                } catch let error as RemoteError where error.code == .unavailable {
                    // The new one may be shorter.
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
    ///   - condition: What must be so.
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
