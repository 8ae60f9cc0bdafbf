import Foundation

/// A local file of which parts are written, anywhere.
final class PatchedFile: Sendable {
    private let handle: FileHandle
    private let url: URL

    /// Opens a file and brings it to a length.
    init(at url: URL, byteCount: Int64) throws {
        self.url = url
        // A link that stands there leads to a file of somebody else's.
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

    /// Ends the writing, and makes the file durable.
    func synchronize() throws {
        do { try handle.synchronize() } catch { throw StoreSyncError(writing: url, error) }
        try close()
    }

    /// Ends the writing.
    func close() throws {
        do { try handle.close() } catch { throw StoreSyncError(writing: url, error) }
    }
}
