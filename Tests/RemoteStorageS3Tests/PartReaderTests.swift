import RemoteStorage
import Testing

@testable import RemoteStorageS3

@Suite("The parts of an upload", .timeLimit(.minutes(60)))
struct PartReaderTests {
    /// The sizes of a content's parts, of which the first has one byte.
    private func sizes(of count: Int, announces: Bool) async throws -> [Int] {
        let content = RemoteContent(length: announces ? Int64(count) : nil) {
            var rest = count
            return {
                guard rest > 0 else { return nil }
                let size = min(rest, 1000)
                rest -= size
                return [UInt8](repeating: 7, count: size)
            }
        }
        var reader = PartReader(content, try RemotePath("file"), size: 1)
        var sizes: [Int] = []
        while true {
            let (bytes, isLast) = try await reader.next()
            sizes.append(bytes.count)
            if isLast { return sizes }
        }
    }

    @Test("The parts of an upload grow if its length isn't known, so that 10,000 parts suffice")
    func growth() async throws {
        let sizes = try await sizes(of: 1_000_000, announces: false)
        #expect(sizes.count <= PartedUpload.maximumParts)
        #expect(sizes.reduce(0, +) == 1_000_000)
        // Some servers require equal parts, so files of usual sizes have them.
        #expect(sizes.prefix(5000).allSatisfy { $0 == 1 })
        #expect(sizes[5000] == 2 && sizes[5499] == 2 && sizes[5500] == 4)
    }

    @Test("The parts of an upload have one size if its length is known")
    func equalSizes() async throws {
        let sizes = try await sizes(of: 6000, announces: true)
        #expect(sizes == [Int](repeating: 1, count: 6000))
    }

    @Test("The parts of an upload grow to at most 256 MiB, and aren't smaller than configured")
    func limit() {
        func sizes(from first: Int) -> [Int] {
            (1...PartedUpload.maximumParts).map { PartedUpload.size(ofPart: $0, from: first) }
        }
        #expect(sizes(from: 5 << 20).max() == 256 << 20)
        #expect(sizes(from: 5 << 20).reduce(0, +) >= 800 << 30)
        #expect(sizes(from: 8 << 20).reduce(0, +) >= 900 << 30)
        #expect(Set(sizes(from: 1 << 30)) == [1 << 30])
    }
}
