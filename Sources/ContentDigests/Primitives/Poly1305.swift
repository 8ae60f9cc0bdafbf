#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// Poly1305 (RFC 8439): libsodium's `crypto_onetimeauth`, used with one key for many messages.
///
/// So tags must stay secret. Then Poly1305 is a universal hash and nothing more: an attacker who doesn't know the key can't find two
/// messages with the same tag.
final class Poly1305: @unchecked Sendable {
    // Sendable: `key` is written only in `init`.
    static let keyBytes = 32
    static let tagBytes = 16

    private let key: UnsafeMutableRawBufferPointer

    init(key bytes: UnsafeRawBufferPointer) {
        precondition(bytes.count == Self.keyBytes, "the key has the wrong length")
        Sodium.prepare()
        key = .allocate(byteCount: Self.keyBytes, alignment: 16)
        key.copyMemory(from: bytes)
    }

    deinit {
        sodium_memzero(key.baseAddress, key.count)
        key.deallocate()
    }

    /// Writes the message's tag to `tag`.
    func fill(_ tag: UnsafeMutableRawBufferPointer, with message: UnsafeRawBufferPointer) {
        precondition(tag.count == Self.tagBytes, "a tag can't have \(tag.count) bytes")
        let status = crypto_onetimeauth(
            tag.start,
            message.start,
            UInt64(message.count),
            UnsafeRawBufferPointer(key).start
        )
        precondition(status == 0, "crypto_onetimeauth failed with \(status)")
    }
}

extension Poly1305: Equatable {
    static func == (left: Poly1305, right: Poly1305) -> Bool {
        sodium_memcmp(UnsafeRawPointer(left.key.start), UnsafeRawPointer(right.key.start), keyBytes) == 0
    }
}
