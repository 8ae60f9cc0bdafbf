import ContentDigests

#if canImport(Clibsodium)
import Clibsodium
import libzstd
#else
import CSodium
import CZstd
#endif

/// The memory that a worker reuses from chunk to chunk: space for one chunk, and zstd's contexts.
///
/// Each worker has its own.
final class ChunkWorkspace {
    private let compressor: OpaquePointer
    private let decompressor: OpaquePointer
    private var memory: UnsafeMutableRawBufferPointer

    init() {
        guard let compressor = ZSTD_createCCtx(), let decompressor = ZSTD_createDCtx() else {
            fatalError("the system provided no memory for compression")
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

    /// Wipes and frees the memory, since it held secret content.
    private func giveBackMemory() {
        sodium_memzero(memory.start, memory.count)
        memory.deallocate()
    }

    /// Returns scratch memory of `count` bytes with undefined content.
    func scratch(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if memory.count < count {
            giveBackMemory()
            memory = .allocate(byteCount: count, alignment: 16)
        }
        return UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
    }

    /// Compresses into the scratch memory.
    ///
    /// - Returns: The compressed bytes, valid until the workspace is used again; `nil` if they aren't fewer.
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
    /// - Returns: The number of bytes; `nil` if the input isn't zstd, or the output doesn't fit.
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
