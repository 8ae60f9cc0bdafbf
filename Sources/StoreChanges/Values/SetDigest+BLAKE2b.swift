import ContentDigests

extension SetDigest {
    /// The BLAKE2b-256 of bytes.
    package init(of bytes: [UInt8]) { self.init(rawValue: Blake2b.digest(of: bytes)) }
}
