#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// GMAC with AES-256 (NIST SP 800-38D): libsodium's `crypto_aead_aes256gcm` with nothing to encrypt.
///
/// The nonce is always the same, so tags must stay secret. Then GMAC is a universal hash and nothing more: an attacker who doesn't
/// know the key can't find two messages with the same value.
final class GMAC: @unchecked Sendable {
    // Sendable: `state` is written only in `init`.
    static let keyBytes = 32
    static let tagBytes = 16
    private static let nonce = [UInt8](repeating: 0, count: 12)

    /// Whether this processor has the AES instructions.
    static let isAvailable: Bool = {
        Sodium.prepare()
        return crypto_aead_aes256gcm_is_available() == 1
    }()

    private let state: UnsafeMutablePointer<crypto_aead_aes256gcm_state>

    /// Prepares a key; `nil` if GMAC isn't available on this processor.
    init?(key: [UInt8]) {
        guard Self.isAvailable else { return nil }
        precondition(key.count == Self.keyBytes, "the key has the wrong length")
        state = UnsafeMutableRawPointer.allocate(byteCount: crypto_aead_aes256gcm_statebytes(), alignment: 16)
            .bindMemory(to: crypto_aead_aes256gcm_state.self, capacity: 1)
        crypto_aead_aes256gcm_beforenm(state, key)
    }

    deinit {
        sodium_memzero(state, crypto_aead_aes256gcm_statebytes())
        UnsafeMutableRawPointer(state).deallocate()
    }

    /// Writes the message's tag to `tag`.
    func fill(_ tag: UnsafeMutableRawBufferPointer, with message: UnsafeRawBufferPointer) {
        precondition(tag.count == Self.tagBytes, "a tag can't have \(tag.count) bytes")
        var nothing: UInt8 = 0
        let status = crypto_aead_aes256gcm_encrypt_detached_afternm(
            &nothing,
            tag.start,
            nil,
            nil,
            0,
            message.start,
            UInt64(message.count),
            nil,
            Self.nonce,
            state
        )
        precondition(status == 0, "crypto_aead_aes256gcm failed with \(status)")
    }
}
