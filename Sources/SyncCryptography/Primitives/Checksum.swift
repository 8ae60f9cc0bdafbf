import ContentDigests

/// The checksum at the end of a file: the digest of all bytes before it, which shows that the file is complete and undamaged.
///
/// It's no protection against attackers, who can compute it.
enum Checksum {
    static let byteCount = Blake2b.byteCount

    /// Returns a file with its checksum.
    static func append(to content: [UInt8]) -> [UInt8] { content + Blake2b.digest(of: content) }

    /// Whether a file ends with its checksum.
    static func matches(_ file: [UInt8]) -> Bool {
        Blake2b.digest(of: Array(file.dropLast(byteCount))).elementsEqual(file.suffix(byteCount))
    }
}
