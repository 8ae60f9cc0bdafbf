import Foundation

extension FileHandle {
    /// Reads the next bytes of a file, by one system call where the system lets it be one.
    ///
    /// `read(upToCount:)` reads 2 KiB at a time on Linux, which takes longer than digesting them. Blocks.
    ///
    /// - Parameter count: How many bytes are wanted.
    /// - Returns: The bytes; fewer than wanted only at the end of the file.
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
