import Foundation

extension FileHandle {
    /// Reads the next bytes of a file, with a single system call if the system allows it.
    ///
    /// `read(upToCount:)` reads 2 KiB at a time on Linux, which takes longer than digesting them. Blocks.
    ///
    /// - Parameter count: How many bytes to read.
    /// - Returns: The bytes; fewer than `count` only at the end of the file.
    /// - Throws: `POSIXError`.
    package func readBlock(of count: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            while initializedCount < count {
                let rest = UnsafeMutableRawBufferPointer(
                    rebasing: UnsafeMutableRawBufferPointer(buffer)[initializedCount...]
                )
                switch Foundation.read(fileDescriptor, rest.baseAddress, rest.count) {
                case 0: return
                case let readCount where readCount > 0: initializedCount += readCount
                default: guard errno == EINTR else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
                }
            }
        }
    }
}
