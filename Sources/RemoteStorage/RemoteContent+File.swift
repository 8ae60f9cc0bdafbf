import FileSupport
public import Foundation
import SystemPackage
import ThreadSupport

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension RemoteContent {
    /// Opens a file of this device, so that it can be written to a storage.
    ///
    /// The file is opened once. Every pass reads that file, even if another file replaces it in the meantime. It is
    /// closed when the content and all its iterators are released.
    ///
    /// - Parameters:
    ///   - url: The file; symbolic links are followed.
    ///   - chunkSize: The number of bytes in a chunk.
    ///   - executor: The executor on which reads block; `nil` for threads reserved for blocking calls.
    /// - Returns: The file's bytes. Iterating throws ``RemoteError/Code/unavailable`` if the file becomes shorter.
    /// - Throws: ``RemoteError``, such as ``RemoteError/Code/notFound``, with a message that names the file.
    public static func file(
        at url: URL,
        chunkSize: Int = chunkSize,
        executor: (any TaskExecutor)? = nil
    ) async throws -> RemoteContent {
        let path = url.path(percentEncoded: false)
        return try await runBlocking(on: executor) {
            do throws(Errno) {
                let file = try OpenFile(path: path, O_RDONLY | O_NONBLOCK)
                let status = try file.status()
                guard status.type == .regular else {
                    throw status.type == .directory ? .isDirectory : .noSuchAddressOrDevice
                }
                return RemoteContent(of: file, range: 0..<status.size, chunkSize: chunkSize, executor: executor)
            } catch {
                let code = RemoteError(error, at: .root, in: path).code
                throw RemoteError(code, "“\(path)” can't be read (\(error)). Name a readable file.", cause: error)
            }
        }
    }

    /// Reads a range of an open file.
    init(of file: OpenFile, range: Range<Int64>, chunkSize: Int = chunkSize, executor: (any TaskExecutor)?) {
        self.init(length: range.upperBound - range.lowerBound) {
            var offset = range.lowerBound
            return {
                try Task.checkCancellation()
                let count = Int(Swift.min(Int64(chunkSize), range.upperBound - offset))
                guard count > 0 else { return nil }
                let chunk = try await runBlocking(on: executor) { [offset] in
                    do throws(Errno) {
                        return try file.read(at: offset, upTo: count)
                    } catch {
                        throw RemoteError(.unavailable, "Reading a file failed: \(error).", cause: error)
                    }
                }
                guard !chunk.isEmpty else {
                    throw RemoteError(.unavailable, "A file became shorter while it was read. Try again.")
                }
                offset += Int64(chunk.count)
                return chunk
            }
        }
    }
}
