import ContentDigests
import Testing

@testable import SyncCryptography

@Suite("The primitives compute the published values")
struct PrimitiveVectorTests {
    @Test(
        "BLAKE2b with a key: Known answers of its reference implementation",
        arguments: [
            (
                0,
                "10ebb67700b1868efb4417987acf4690ae9d972fb7a590c2f02871799aaa4786b5e996e8f0f4eb981fc214b005f42d2ff4233499391653df7aefcbc13fc51568"
            ),
            (
                1,
                "961f6dd1e4dd30f63901690c512e78e4b45e4742ed197c3c5e45c549fd25f2e4187b0bc9fe30492b16b0d0bc4ef9b0f34c7003fac09a5ef1532e69430234cebd"
            ),
            (
                255,
                "142709d62e28fcccd0af97fad0f8465b971e82201dc51070faa0372aa43e92484be1c1e73ba10906d5d1853db6a4106e0a7bf9800d373d6dee2d46d62ef2a461"
            ),
        ]
    )
    func keyedBlake2b(count: Int, expected: String) {
        let key = SecretBytes(copying: (0..<64).map { UInt8($0) })
        let message = (0..<count).map { UInt8($0) }
        #expect(hex(Blake2b.digest(of: message, key: key, count: 64)) == expected)
        #expect(Blake2b.secret(of: message, key: key, count: 64).isEqual(to: bytes(hex: expected)))
    }

    @Test("XChaCha20-Poly1305: the example of draft-irtf-cfrg-xchacha, A.3.1")
    func xchacha20poly1305() {
        let plaintext = Array(
            "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
                .utf8
        )
        let key = SecretBytes(copying: (0x80..<0xA0).map { UInt8($0) })
        let nonce = (0x40..<0x58).map { UInt8($0) }
        let associated = bytes(hex: "50515253c0c1c2c3c4c5c6c7")
        var sealed = [UInt8](repeating: 0, count: plaintext.count + 16)
        plaintext.withUnsafeBytes { plaintext in
            sealed.withUnsafeMutableBytes {
                XChaCha20Poly1305.seal(plaintext, into: $0, nonce: nonce, associated: associated, key: key)
            }
        }
        #expect(
            hex(sealed)
                == "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f615c68b13b52e"
                + "c0875924c1c7987947deafd8780acf49"
        )
        func open(_ sealed: [UInt8]) -> [UInt8]? {
            var opened = [UInt8](repeating: 0, count: sealed.count - 16)
            let isAuthentic = sealed.withUnsafeBytes { sealed in
                opened.withUnsafeMutableBytes {
                    XChaCha20Poly1305.open(sealed, into: $0, nonce: nonce[...], associated: associated, key: key)
                }
            }
            return isAuthentic ? opened : nil
        }
        #expect(open(sealed) == plaintext)
        sealed[20] ^= 1
        #expect(open(sealed) == nil)
    }

    @Test(
        "Argon2id: answers that libsodium publishes with its own tests",
        arguments: [
            (
                "b540beb016a5366524d4605156493f9874514a5aa58818cd0c6dfffaa9e90205f17b",
                "44071f6d181561670bda728d43fb79b4", 1, 1_631_659,
                "7fb72409b0987f8190c3729710e98c3f80c5a8727d425fdcde7f3644d467fe973f5b5fee683bd3fce812cb9ae5e9921a2d06c2f1905e4e839692f2b934b682f11a2fe2b90482ea5dd234863516dba6f52dc0702d324ec77d860c2e181f84472bd7104fedce071ffa93c5309494ad51623d214447a7b2b1462dc7d5d55a1f6fd5b54ce024118d86f0c6489d16545aaa87b6689dad9f2fb47fda9894f8e12b87d978b483ccd4cc5fd9595cdc7a818452f915ce2f7df95ec12b1c72e3788d473441d884f9748eb14703c21b45d82fd667b85f5b2d98c13303b3fe76285531a826b6fc0fe8e3dddecf"
            ),
            (
                "4a857e2ee8aa9b6056f2424e84d24a72473378906ee04a46cb05311502d5250b82ad86b83c8f20a23dbb74f6da60b0b6ecffd67134d45946ac8ebfb3064294bc097d43ced68642bfb8bbbdd0f50b30118f5e",
                "39d82eef32010b8b79cc5ba88ed539fb", 3, 1_432_947,
                "08d8cd330c57e1b4643241d05bb468ba4ee4e932cd0858816be9ef15360b27bbd06a87130ee92222be267a29b81f5ae8fe8613324cfc4832dc49387fd0602f1c57b4d0f3855db94fb7e12eb05f9a484aed4a4307abf586cd3d55c809bc081541e00b682772fb2066504ff935b8ebc551a2083882f874bc0fae68e56848ae34c91097c3bf0cca8e75c0797eef3efde3f75e005815018db3cf7c109a812264c4de69dcb22322dbbcfa447f5b00ecd1b04a7be1569c8e556adb7bba48adf81d"
            ),
        ]
    )
    func argon2id(password: String, salt: String, passes: Int, memory: Int, expected: String) throws {
        let key = try Argon2id.hash(
            SecretBytes(copying: bytes(hex: password)),
            salt: bytes(hex: salt),
            passes: passes,
            memory: memory,
            count: expected.utf8.count / 2
        )
        #expect(key.isEqual(to: bytes(hex: expected)))
    }
}
