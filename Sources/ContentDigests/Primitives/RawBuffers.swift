// libsodium doesn't accept null pointers, not even for empty buffers, which may have no address.

extension UnsafeRawBufferPointer {
    /// The address of the first byte; any address that isn't null if the buffer is empty.
    package var start: UnsafePointer<UInt8> {
        UnsafePointer(UnsafeMutableRawBufferPointer(mutating: self).start)
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The address of the first byte; any address that isn't null if the buffer is empty.
    package var start: UnsafeMutablePointer<UInt8> {
        // 1 isn't null, so `init` returns a pointer. Without bytes it's never dereferenced.
        baseAddress?.assumingMemoryBound(to: UInt8.self) ?? UnsafeMutablePointer(bitPattern: 1).unsafelyUnwrapped
    }
}
