import CSodium
import CZstd

/// What whoever works on chunks keeps from one to the next: memory for one and zstd's own.
///
/// One for each thread of work.
final class ChunkWorkspace {
    private let compressor: OpaquePointer
    private let decompressor: OpaquePointer
    private var memory: UnsafeMutableRawBufferPointer

    init() {
        guard let compressor = ZSTD_createCCtx(), let decompressor = ZSTD_createDCtx() else {
            fatalError("the system gave no memory to compress with")
        }
        self.compressor = compressor
        self.decompressor = decompressor
        memory = .allocate(byteCount: 0, alignment: 16)
    }

    deinit {
        ZSTD_freeCCtx(compressor)
        ZSTD_freeDCtx(decompressor)
        giveBackMemory()
    }

    /// What passed through the memory is what others must not see.
    private func giveBackMemory() {
        sodium_memzero(memory.start, memory.count)
        memory.deallocate()
    }

    /// Scratch memory of `count` bytes, with anything in it.
    func scratch(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if memory.count < count {
            giveBackMemory()
            memory = .allocate(byteCount: count, alignment: 16)
        }
        return UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
    }

    /// Compresses into the scratch memory.
    ///
    /// - Returns: The compressed bytes, until the workspace is used again; `nil` if they aren't fewer.
    func compress(_ plaintext: UnsafeRawBufferPointer, level: Int32) -> UnsafeRawBufferPointer? {
        guard plaintext.count > 1 else { return nil }
        let room = scratch(plaintext.count - 1)
        let count = ZSTD_compressCCtx(
            compressor,
            room.baseAddress,
            room.count,
            plaintext.baseAddress,
            plaintext.count,
            level
        )
        guard ZSTD_isError(count) == 0 else { return nil }
        return UnsafeRawBufferPointer(rebasing: room[..<count])
    }

    /// Decompresses into `plaintext`, and never beyond it.
    ///
    /// - Returns: How many bytes there are; `nil` if it isn't zstd, or there are more.
    func decompress(_ compressed: UnsafeRawBufferPointer, into plaintext: UnsafeMutableRawBufferPointer) -> Int? {
        let count = ZSTD_decompressDCtx(
            decompressor,
            plaintext.baseAddress,
            plaintext.count,
            compressed.baseAddress,
            compressed.count
        )
        return ZSTD_isError(count) == 0 ? count : nil
    }
}
