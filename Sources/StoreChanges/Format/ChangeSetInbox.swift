import FileSupport
package import Foundation
import Synchronization
import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Change sets on their way into a replica, in a temporary file: so any number of them takes little memory.
///
/// The file has no name, and its bytes are gone with the last set that refers to it.
package final class ChangeSetInbox: Sendable {
    private let directory: URL
    /// The file, from the first set on, and its size.
    private let content = Mutex<(file: OpenFile, size: Int64)?>(nil)

    /// Creates an empty inbox.
    ///
    /// - Parameter directory: A directory that exists when the first set is added.
    package init(in directory: URL) { self.directory = directory }

    /// Adds a set.
    ///
    /// Blocks.
    ///
    /// - Parameter set: The set.
    /// - Returns: The set, without its bytes.
    /// - Throws: ``StoreChangesError`` with `cannotWrite`.
    package func add(_ set: EncodedChangeSet) throws -> ReceivedSet {
        do {
            return try content.withLock { content in
                let (file, size) = try content ?? (create(), 0)
                try file.write(set.encoded, at: size)
                content = (file, size + Int64(set.encoded.count))
                return ReceivedSet(set, file, at: size)
            }
        } catch let error as Errno {
            throw StoreChangesError(
                .cannotWrite,
                "Received edits can't be written into \(directory.path). Make room or check the permissions.",
                cause: error
            )
        }
    }

    private func create() throws -> OpenFile {
        let path = directory.appending(path: ".inbox-\(UUID().uuidString)").path
        let file = try OpenFile(path: path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        unlink(path)
        return file
    }
}

/// A change set in an inbox.
package struct ReceivedSet: ChangeSetSource {
    package let header: SyncChangeSet.Header
    /// The digest that the client's next set names.
    package let digest: SetDigest
    /// The size of the set's bytes.
    package let byteCount: Int
    private let file: OpenFile
    private let offset: Int64

    fileprivate init(_ set: EncodedChangeSet, _ file: OpenFile, at offset: Int64) {
        (header, digest, byteCount) = (set.header, set.digest, set.encoded.count)
        (self.file, self.offset) = (file, offset)
    }

    package var encoded: [UInt8] {
        get throws {
            do {
                let bytes = try file.read(at: offset, upTo: byteCount)
                guard bytes.count == byteCount else { throw Errno.ioError }
                return bytes
            } catch {
                throw StoreChangesError(
                    .busy,
                    "Received edits can't be read again on this device. Synchronize again.",
                    cause: error
                )
            }
        }
    }
}
