import ContentDigests

#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// XChaCha20-Poly1305 with a nonce of 24 bytes: libsodium's `crypto_aead_xchacha20poly1305_ietf`.
enum XChaCha20Poly1305 {
    static let keyBytes = 32
    static let nonceBytes = 24
    static let tagBytes = 16

    /// Encrypts `plaintext` into `sealed`, which has space for it and the tag after it.
    static func seal(
        _ plaintext: UnsafeRawBufferPointer,
        into sealed: UnsafeMutableRawBufferPointer,
        nonce: [UInt8],
        associated: [UInt8],
        key: SecretBytes
    ) {
        precondition(key.count == keyBytes && nonce.count == nonceBytes, "key or nonce has the wrong length")
        precondition(sealed.count == plaintext.count + tagBytes, "there is no space for the tag")
        let status = key.withBytes { key in
            crypto_aead_xchacha20poly1305_ietf_encrypt(
                sealed.start,
                nil,
                plaintext.start,
                UInt64(plaintext.count),
                associated,
                UInt64(associated.count),
                nil,
                nonce,
                key.start
            )
        }
        precondition(status == 0, "encryption failed with \(status)")
    }

    /// Decrypts `sealed`, a ciphertext and its tag, into `plaintext`.
    ///
    /// - Returns: Whether it is authentic. If it isn't, nothing was decrypted.
    static func open(
        _ sealed: UnsafeRawBufferPointer,
        into plaintext: UnsafeMutableRawBufferPointer,
        nonce: ArraySlice<UInt8>,
        associated: [UInt8],
        key: SecretBytes
    ) -> Bool {
        precondition(key.count == keyBytes && nonce.count == nonceBytes, "key or nonce has the wrong length")
        precondition(plaintext.count == sealed.count - tagBytes, "the plaintext has another length")
        let status = key.withBytes { key in
            nonce.withUnsafeBufferPointer { nonce in
                crypto_aead_xchacha20poly1305_ietf_decrypt(
                    plaintext.start,
                    nil,
                    nil,
                    sealed.start,
                    UInt64(sealed.count),
                    associated,
                    UInt64(associated.count),
                    UnsafeRawBufferPointer(nonce).start,
                    key.start
                )
            }
        }
        return status == 0
    }
}
