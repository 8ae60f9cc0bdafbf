// libsodium takes no null pointers, not even to nothing, and an empty buffer may have no address.

extension UnsafeRawBufferPointer {
    /// Where the bytes begin; some address if there are none.
    var start: UnsafePointer<UInt8> {
        UnsafePointer(UnsafeMutableRawBufferPointer(mutating: self).start)
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Where the bytes begin; some address if there are none.
    var start: UnsafeMutablePointer<UInt8> {
        // 1 isn't null, so it makes a pointer; with no bytes nobody follows it.
        baseAddress?.assumingMemoryBound(to: UInt8.self) ?? UnsafeMutablePointer(bitPattern: 1).unsafelyUnwrapped
    }
}
