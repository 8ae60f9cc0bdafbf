import Foundation
import Operations

/// Writes downloads to local files.
enum FileReceiver {
    /// Receives a file that replaces the existing one, or continues it after its first bytes.
    ///
    /// The file is durable when this returns. After a failure, the caller removes what is left. `afterChunk` may block.
    static func receive<Content: AsyncSequence & Sendable>(
        _ content: Content,
        at url: URL,
        after start: Int64 = 0,
        on context: OperationContext,
        afterChunk: @escaping @Sendable () -> Void = {}
    ) async throws where Content.Element == [UInt8] {
        let file = try await context.blocking { try DownloadFile(at: url, after: start) }
        for try await chunk in content {
            try Task.checkCancellation()
            try await context.blocking {
                try file.write(chunk)
                afterChunk()
            }
        }
        try await context.blocking { try file.finish() }
    }
}

/// A file that is being downloaded, with mode 0600 until it replaces another file.
private final class DownloadFile: Sendable {
    private let handle: FileHandle
    private let path: String

    init(at url: URL, after start: Int64) throws {
        path = url.path
        if start == 0 { unlink(path) }
        let creating = start == 0 ? O_CREAT | O_EXCL : O_APPEND
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | creating, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path, errno) }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard ftruncate(descriptor, off_t(start)) == 0 else { throw Self.failure(path, errno) }
    }

    func write(_ chunk: [UInt8]) throws {
        var written = 0
        while written < chunk.count {
            let count = chunk.withUnsafeBytes { bytes -> Int in
                // The range is not empty, so there is a base address.
                guard let base = bytes.baseAddress else { return 0 }
                return systemWrite(handle.fileDescriptor, base + written, chunk.count - written)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure(path, errno) }
            written += count
        }
    }

    func finish() throws {
        guard fsync(handle.fileDescriptor) == 0 else { throw Self.failure(path, errno) }
        try handle.close()
    }

    private static func failure(_ path: String, _ code: Int32) -> StoreSyncError {
        StoreSyncError(
            .cannotWrite,
            "The download can't be written to \(path) on this device: \(String(cString: strerror(code))). Make room or check the permissions."
        )
    }
}

private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
    write(descriptor, bytes, count)
}
