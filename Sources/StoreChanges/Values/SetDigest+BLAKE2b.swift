import ContentDigests

extension SetDigest {
    /// The BLAKE2b-256 of bytes.
    package init(of bytes: [UInt8]) { self.init(of: bytes[...]) }

    /// The BLAKE2b-256 of a part of an array.
    package init(of bytes: ArraySlice<UInt8>) {
        self.init(
            rawValue: [UInt8](unsafeUninitializedCapacity: Self.byteCount) { digest, initialized in
                bytes.withUnsafeBytes { Blake2b.fill(UnsafeMutableRawBufferPointer(digest), with: $0) }
                initialized = Self.byteCount
            }
        )
    }
}
