import ByteCoding
import FileSupport
package import Foundation

/// The digest of a file's content, by which two copies of a store are known to be the same.
///
/// The file is cut into pages of 4 KiB (the last one may be shorter; an empty file has none). Each page has a digest, its
/// ``PageHash``. A block is 256 pages, 1 MiB; its digest is BLAKE2b, with 32 bytes and no key, of its pages' digests, in order. The
/// root is BLAKE2b of: the 24 bytes of ASCII `swift-store-sync content`, the file's length as 8 bytes, least significant first, and
/// the blocks' digests in order. So blocks can be digested in parallel, a moved or missing page is detected, and the pages' digests
/// show what changed between two states.
package struct ContentRoot: Hashable, Sendable, CustomStringConvertible {
    /// The root's 32 bytes.
    package let bytes: [UInt8]

    /// The size of a block, in bytes.
    package static let blockSize = 1 << 20

    /// The size of a page, in bytes.
    package static let pageSize = 1 << 12

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Reads a root from 64 hexadecimal digits, in lower case.
    package init?(hex: String) {
        guard let bytes = [UInt8](hexadecimal: hex.utf8), bytes.count == Blake2b.byteCount, bytes.hexadecimal == hex
        else { return nil }
        self.bytes = bytes
    }

    /// The root in hexadecimal, in lower case.
    package var description: String { bytes.hexadecimal }

    /// Digests a local file.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - pages: How its pages are digested.
    ///   - body: Called with each block.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: What reading the file and `body` throw, or `CancellationError`.
    package static func ofFile(
        at url: URL,
        _ pages: PageHash,
        _ body: ([UInt8]) throws -> Void = { _ in }
    ) throws -> (byteCount: Int64, root: ContentRoot) {
        let handle = try FileHandle(forReadingFrom: url)
        defer { try? handle.close() }
        var hasher = ContentRootHasher(pages)
        while true {
            try Task.checkCancellation()
            let block = try handle.readBlock(of: blockSize)
            guard !block.isEmpty else { return (hasher.byteCount, hasher.finalize()) }
            hasher.update(block)
            try body(block)
        }
    }
}
