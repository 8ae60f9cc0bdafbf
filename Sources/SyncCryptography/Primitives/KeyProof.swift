import ContentDigests

/// The end of a file whose writer had a master key: the keyed digest of all bytes before it, and then the file's checksum.
enum KeyProof {
    static let byteCount = Blake2b.byteCount + Checksum.byteCount

    /// Returns a file with its proof and its checksum.
    static func append(to content: [UInt8], by key: MasterKey) -> [UInt8] {
        Checksum.append(to: content + Blake2b.digest(of: content, key: key.bytes))
    }

    /// Whether the writer of a whole file had this key.
    static func holds(in file: [UInt8], for key: MasterKey) -> Bool {
        let proof = Array(file.suffix(byteCount).prefix(Blake2b.byteCount))
        return Blake2b.secret(of: file.dropLast(byteCount), key: key.bytes).isEqual(to: proof)
    }
}
