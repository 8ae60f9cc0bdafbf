import RemoteStorage
import Testing

@Suite("An item of a list")
struct RemoteItemTests {
    @Test(
        "A listed item has a size that can't overflow a sum, even if the storage is untrusted",
        arguments: [.min, -1, 0, 7, .max]
    )
    func size(claimed: Int64) {
        let size = RemoteItem(name: "file", kind: .file, size: claimed).size
        #expect((0...1 << 53).contains(size))
        #expect(claimed != 7 || size == 7)
    }
}
