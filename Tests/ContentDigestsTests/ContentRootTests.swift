import ContentDigests
import Foundation
import Testing

@Suite("The content root of a file")
struct ContentRootTests {
    private func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(($0 * 7 + 3) % 251) } }

    private static let keyed = [UInt8](0..<32).withUnsafeBytes { PageHash(key: $0) }

    private func root(of bytes: [UInt8], chunk: Int? = nil, _ pages: PageHash = .plain) -> ContentRoot {
        var hasher = ContentRootHasher(pages)
        var index = 0
        while index < bytes.count {
            let end = min(index + (chunk ?? bytes.count), bytes.count)
            hasher.update(Array(bytes[index..<end]))
            index = end
        }
        return hasher.finalize()
    }

    @Test("A block's digest is BLAKE2b with 32 bytes, equal to that of its reference implementation")
    func blake2b() {
        let digest = Blake2b.digest(of: Array("abc".utf8)).map { String(format: "%02x", $0) }.joined()
        #expect(digest == "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319")
    }

    @Test(
        "A content root equals that of another implementation of the written definition",
        arguments: [
            (0, "13805a70995852f99e086ef4546cfa941464d779057d9442571060522ac6b458"),
            (1, "49e655c600139765d74eacae8b655b56d3ad16c2a8a4be4578bb2298c0717142"),
            (1_048_575, "2c7e3e726ded69c7c4b35dae6c9c6cd790c17819e315af0215597536fa0e2ac0"),
            (1_048_576, "ae77e6cc5b288597005a83a4bd6743f99a780493ab420c13a12f7d35c8f0eea9"),
            (1_048_577, "c0498e74090649ef4cbcc7aa2f72e37aa6a7389de5711fd99fe27fd1fe540325"),
            (3_145_733, "5f8cbe62a59e7a54b459c082fec5e33ab29c0634f05c7470c72cfd977b40bb05"),
        ]
    )
    func vectors(count: Int, hex: String) {
        #expect(root(of: bytes(count)).description == hex)
    }

    @Test(
        "A content root with a key equals that of another implementation of the written definition",
        arguments: [
            (0, "13805a70995852f99e086ef4546cfa941464d779057d9442571060522ac6b458"),
            (1, "c4542798d698c6d1445111a7843123a8fe36c1d3f8c896fc69b24f5f4214634c"),
            (1_048_575, "a3ba2ffffe40686cee7355f0cad2155d6a5dc1af0cfd0c88d20f9b4224afe60b"),
            (1_048_576, "bedf6c704e2f02636f3b1c6640fa04ee77b50396e9606aef0c92ec7bf39acaf1"),
            (1_048_577, "b8b8f8f288b1c8afb0a46105a53a7d943b6f6f085c3c9f159228e8a78154445d"),
            (3_145_733, "f3abb95c322d95e52b46ba880da3a3733f6c4209a65ac514bccc408037dbcd67"),
        ]
    )
    func keyedVectors(count: Int, hex: String) {
        #expect(root(of: bytes(count), Self.keyed).description == hex)
        #expect(root(of: bytes(count), chunk: 1_000_000, Self.keyed).description == hex)
    }

    @Test("Another key gives another content root, and no description shows a key")
    func keys() {
        let other = [UInt8](1..<33).withUnsafeBytes { PageHash(key: $0) }
        #expect(other != Self.keyed && Self.keyed != .plain)
        #expect(Self.keyed == [UInt8](0..<32).withUnsafeBytes { PageHash(key: $0) })
        #expect(root(of: [1, 2, 3], other) != root(of: [1, 2, 3], Self.keyed))
        var dumped = ""
        dump(Self.keyed, to: &dumped)
        #expect(
            dumped == "- Poly1305\n" && "\(Self.keyed)" == "Poly1305" && String(reflecting: Self.keyed) == "Poly1305"
        )
    }

    @Test(
        "A content root doesn't depend on the pieces that the content comes in",
        arguments: [1009, 65_536, 1_048_576, 1_500_000]
    )
    func pieces(chunk: Int) {
        let content = bytes(2_500_000)
        #expect(root(of: content, chunk: chunk) == root(of: content))
    }

    @Test("A changed, moved or missing byte changes the content root")
    func sensitivity() {
        let content = bytes(2_200_000)
        var changed = content
        changed[1_100_000] ^= 1
        var swapped = content
        swapped.replaceSubrange(0..<1_048_576, with: content[1_048_576..<2_097_152])
        swapped.replaceSubrange(1_048_576..<2_097_152, with: content[0..<1_048_576])
        let roots = [content, changed, swapped, Array(content.dropLast()), content + [0]].map { root(of: $0) }
        #expect(Set(roots).count == roots.count)
    }

    @Test("A content root is read from its hexadecimal form, and from no other text")
    func hex() {
        let root = root(of: [1, 2, 3])
        #expect(ContentRoot(hex: root.description) == root)
        for wrong in [
            "", "00", root.description + "0", root.description.uppercased(), "+f" + root.description.dropFirst(2),
        ] {
            #expect(ContentRoot(hex: String(wrong)) == nil)
        }
    }

    @Test("A file on the disk has the root of its content")
    func file() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "content-root-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: url) }
        let content = bytes(2_097_153)
        try Data(content).write(to: url)
        let (count, root) = try ContentRoot.ofFile(at: url, .plain)
        #expect(count == 2_097_153)
        #expect(root == self.root(of: content))
    }
}
