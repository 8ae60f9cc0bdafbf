import Foundation

/// A local file of which parts are written, at any offset.
final class PatchedFile: Sendable {
    private let handle: FileHandle
    private let url: URL

    /// Opens a file and sets its length.
    init(at url: URL, byteCount: Int64) throws {
        self.url = url
        // O_NOFOLLOW because a symbolic link at this path could lead to another user's file.
        let descriptor = open(url.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw StoreSyncError(writing: url.path, errno: errno) }
        handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            try handle.truncate(atOffset: UInt64(byteCount))
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }

    func write(_ bytes: ArraySlice<UInt8>, at offset: Int64) throws {
        do {
            try handle.seek(toOffset: UInt64(offset))
            try handle.write(contentsOf: Data(bytes))
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }

    /// Makes the file durable and closes it.
    func synchronize() throws {
        do { try handle.synchronize() } catch { throw StoreSyncError(writing: url, error) }
        try close()
    }

    /// Closes the file.
    func close() throws {
        do { try handle.close() } catch { throw StoreSyncError(writing: url, error) }
    }
}
