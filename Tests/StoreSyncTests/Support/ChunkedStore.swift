import Foundation
import OperationsTesting
import RemoteStorage

/// A store that isn't a database, whose chunks can't be compressed and differ from each other.
struct ChunkedStore {
    static let chunk = RemoteContent.chunkSize
    private static let noise: [UInt8] = {
        var generator = SplitMix64(seed: 1)
        return (0..<chunk / 8).flatMap { _ in withUnsafeBytes(of: generator.next()) { Array($0) } }
    }()

    let url: URL

    /// Creates the store.
    func make(chunks: Int, version: Int) throws {
        try Data().write(to: url)
        let handle = try FileHandle(forWritingTo: url)
        defer { try? handle.close() }
        for index in 0..<chunks { try handle.write(contentsOf: Self.bytes(index, version)) }
    }

    /// Changes a chunk.
    func edit(chunk index: Int, version: Int) throws {
        let handle = try FileHandle(forUpdating: url)
        defer { try? handle.close() }
        try handle.seek(toOffset: UInt64(index * Self.chunk))
        try handle.write(contentsOf: Self.bytes(index, version))
    }

    private static func bytes(_ index: Int, _ version: Int) -> [UInt8] {
        var bytes = noise
        bytes.replaceSubrange(0..<3, with: [UInt8(index), UInt8(version & 0xFF), UInt8(version >> 8)])
        return bytes
    }
}
