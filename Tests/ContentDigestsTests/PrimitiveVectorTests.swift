import ByteCoding
import Testing

@testable import ContentDigests

@Suite("The digests' primitives compute the published values")
struct PrimitiveVectorTests {
    @Test("BLAKE2b: The example of RFC 7693, appendix A")
    func blake2b() {
        let digest = Blake2b.digest(of: Array("abc".utf8), count: 64)
        #expect(
            digest.hexadecimal
                == "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
        )
    }

    @Test("Poly1305: the example of RFC 8439, section 2.5.2")
    func poly1305() throws {
        let key = try #require(
            [UInt8](hexadecimal: "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b".utf8)
        )
        let mac = key.withUnsafeBytes { Poly1305(key: $0) }
        var tag = [UInt8](repeating: 0, count: 16)
        tag.withUnsafeMutableBytes { tag in
            Array("Cryptographic Forum Research Group".utf8).withUnsafeBytes { mac.fill(tag, with: $0) }
        }
        #expect(tag.hexadecimal == "a8061dc1305136c6c22b8baf0c0127a9")
    }

    @Test(
        "GMAC: test case 13 of the GCM specification, and a value of another implementation",
        .enabled(if: GMAC.isAvailable),
        arguments: [
            ("", "530f8afbc74536b9a963b4f1c4cb738b"),
            ("abc", "ddb82eac2f698dc1569bb9d6c92147fa"),
        ]
    )
    func gmac(message: String, expected: String) throws {
        let mac = try #require(GMAC(key: [UInt8](repeating: 0, count: 32)))
        var tag = [UInt8](repeating: 0, count: 16)
        tag.withUnsafeMutableBytes { tag in Array(message.utf8).withUnsafeBytes { mac.fill(tag, with: $0) } }
        #expect(tag.hexadecimal == expected)
    }

    @Test("SipHash-2-4: the example of its paper, appendix A")
    func sipHash() {
        let key = KeyedHash(key: [UInt8](0..<32))
        let hash = [UInt8](0..<15).withUnsafeBytes { key.sipHash($0) }
        #expect(hash == 0xa129_ca61_49be_45e5)
    }

    @Test(
        "A keyed hash is the first half of the GMAC where the processor accelerates it",
        .enabled(if: GMAC.isAvailable)
    )
    func keyedHash() throws {
        let key = KeyedHash(key: [UInt8](repeating: 0, count: 32))
        let hash = Array("abc".utf8).withUnsafeBytes { key.hash($0) }
        #expect(hash.bigEndian == 0xddb8_2eac_2f69_8dc1)
    }
}
