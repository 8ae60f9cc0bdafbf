/// The function by which the pages of a file's content are digested.
///
/// In an application that isn't encrypted it's BLAKE2b. In an encrypted one it's Poly1305 with a key that only the application's
/// devices know, which takes less than a third of the time. The storage has neither the key nor a digest of a page, so it can't
/// find two pages with the same digest, whatever it makes a user write into a store: for two pages, the probability is at most 2⁻⁹⁵.
package struct PageHash: Sendable, Equatable {
    /// The size of a key, in bytes.
    package static let keyBytes = Poly1305.keyBytes
    /// The size in bytes of a digest with a key.
    package static let keyedByteCount = Poly1305.tagBytes

    /// BLAKE2b, without a key.
    package static let plain = PageHash(nil)

    private let mac: Poly1305?

    private init(_ mac: Poly1305?) { self.mac = mac }

    /// Poly1305 with a key of ``keyBytes`` bytes, which is copied.
    package init(key: UnsafeRawBufferPointer) { self.init(Poly1305(key: key)) }

    /// The size of a digest, in bytes.
    var byteCount: Int { mac == nil ? Blake2b.byteCount : Self.keyedByteCount }

    /// Returns the digests of the pages of `bytes`, concatenated; the last page may be shorter.
    ///
    /// - Parameters:
    ///   - bytes: The content, from the beginning of a page.
    ///   - size: The size of a page in bytes.
    /// - Returns: ``byteCount`` bytes for each page.
    func digests(of bytes: [UInt8], pageSize size: Int = ContentRoot.pageSize) -> [UInt8] {
        let count = (bytes.count + size - 1) / size * byteCount
        return [UInt8](unsafeUninitializedCapacity: count) { digests, initialized in
            bytes.withUnsafeBytes { bytes in
                for (index, start) in stride(from: 0, to: bytes.count, by: size).enumerated() {
                    let page = UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + size, bytes.count)])
                    let digest = UnsafeMutableRawBufferPointer(
                        rebasing: UnsafeMutableRawBufferPointer(digests).dropFirst(index * byteCount).prefix(byteCount)
                    )
                    if let mac { mac.fill(digest, with: page) } else { Blake2b.fill(digest, with: page) }
                }
            }
            initialized = count
        }
    }
}

extension PageHash: CustomStringConvertible, CustomReflectable {
    /// Reveals nothing of the key.
    package var description: String { mac == nil ? "BLAKE2b" : "Poly1305" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
