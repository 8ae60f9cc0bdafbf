import Foundation
import ThreadSupport

extension FileDigester {
    /// Reads and digests a file of this device, on all cores, but at most on 16 threads.
    ///
    /// Each thread reads a block, and digests it while it's in the core's cache.
    ///
    /// - Parameters:
    ///   - byteCount: The size of the file, in bytes.
    ///   - executor: The executor on which the threads block.
    ///   - read: Reads bytes at an offset; fewer than requested only at the end. It blocks, and is called on several threads.
    /// - Returns: The digests; if the file has become shorter, the digests of what is left.
    /// - Throws: What `read` throws, or `CancellationError`.
    package consuming func digests(
        ofBytes byteCount: Int64,
        on executor: (any TaskExecutor)?,
        reading read: @escaping @Sendable (_ offset: Int64, _ count: Int) throws -> [UInt8]
    ) async throws -> FileDigests {
        let pages = pages
        let reading = Locked(BlockReading(byteCount: byteCount, digester: self))
        // The executor's other jobs need threads, too.
        try await (0..<min(ProcessInfo.processInfo.activeProcessorCount, 16)).concurrentMap { _ in
            try await runBlocking(on: executor) {
                while let block = reading.withLock({ $0.take() }) {
                    try Task.checkCancellation()
                    let bytes = try read(block.lowerBound, block.count)
                    let digests = ChunkDigests(of: bytes, chunkSize: ContentRoot.blockSize, by: pages)
                    reading.withLock { $0.finish(block, digests) }
                }
            }
        }
        return reading.withLock { $0.digester.finalize() }
    }
}

/// The blocks of a file that several threads read: they are taken in order, and finished in any order.
struct BlockReading: Sendable {
    let byteCount: Int64
    /// The digester of all blocks before the first unfinished one.
    var digester: FileDigester
    private var taken: Int64 = 0
    /// Where the first block begins that isn't finished.
    private var finished: Int64 = 0
    /// The digests of later blocks, by where these begin.
    private var waiting: [Int64: ChunkDigests] = [:]

    init(byteCount: Int64, digester: FileDigester) {
        (self.byteCount, self.digester) = (byteCount, digester)
    }

    /// Returns where the next block is; `nil` at the end.
    mutating func take() -> Range<Int64>? {
        let block = taken..<min(taken + Int64(ContentRoot.blockSize), byteCount)
        taken = block.upperBound
        return block.isEmpty ? nil : block
    }

    /// Adds a block's digests, and appends to the digester all that are next in order.
    mutating func finish(_ block: Range<Int64>, _ digests: ChunkDigests) {
        waiting[block.lowerBound] = digests
        while let next = waiting.removeValue(forKey: finished) {
            digester.append(next)
            // Nothing follows a block that is shorter than the others, at the end of the file.
            finished += Int64(ContentRoot.blockSize)
            if next.byteCount < ContentRoot.blockSize { finished = .max }
        }
    }
}
