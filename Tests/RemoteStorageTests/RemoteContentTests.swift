import Foundation
import RemoteStorage
import Testing

@Suite("A remote content", .timeLimit(.minutes(60)))
struct RemoteContentTests {
    @Test("A remote content returns the same bytes on every pass")
    func replays() async throws {
        let countdown = RemoteContent(length: 3) {
            var next: UInt8 = 3
            return {
                guard next > 0 else { return nil }
                defer { next -= 1 }
                return [next]
            }
        }
        #expect(try await countdown.bytes(upTo: 3) == [3, 2, 1])
        #expect(try await countdown.bytes(upTo: 3) == [3, 2, 1])
        #expect(try await RemoteContent([]).bytes(upTo: 0) == [])
    }

    @Test("A remote content throws instead of collecting more bytes than the limit")
    func limits() async throws {
        await expect(.wrongLength) { try await RemoteContent([1, 2, 3]).bytes(upTo: 2) }
        #expect(try await RemoteContent([1, 2, 3]).bytes(upTo: 3) == [1, 2, 3])
        // A content that announces more bytes isn't even started.
        let large = RemoteContent(length: 3) {
            Issue.record("the content was started")
            return { nil }
        }
        await expect(.wrongLength) { try await large.bytes(upTo: 2) }
    }

    @Test("A remote content of a file returns the file's bytes in chunks", arguments: [0, 1, 9, 10, 11, 20, 21])
    func readsFiles(size: Int) async throws {
        try await withTemporaryFolder { folder in
            let url = folder.appending(component: "a file")
            let bytes = (0..<size).map { UInt8($0) }
            try Data(bytes).write(to: url)
            let content = try await RemoteContent.file(at: url, chunkSize: 10)
            #expect(content.length == Int64(size))
            for _ in 0..<2 {
                var chunks: [[UInt8]] = []
                for try await chunk in content { chunks.append(chunk) }
                #expect(chunks.flatMap(\.self) == bytes)
                #expect(chunks.dropLast().allSatisfy { $0.count == 10 })
                #expect(chunks.allSatisfy { !$0.isEmpty })
            }
        }
    }

    @Test("A remote content reads its file even if the path is replaced, and throws if the file is truncated")
    func keepsToTheFile() async throws {
        try await withTemporaryFolder { folder in
            let url = folder.appending(component: "file")
            try Data([1, 2, 3]).write(to: url)
            let content = try await RemoteContent.file(at: url)
            try Data([4, 5, 6, 7]).write(to: url, options: .atomic)
            #expect(try await content.bytes(upTo: 10) == [1, 2, 3])

            let other = try await RemoteContent.file(at: url)
            try FileHandle(forWritingTo: url).truncate(atOffset: 2)
            await expect(.unavailable) { try await other.bytes(upTo: 10) }
        }
    }

    @Test("A remote content can't be created from a missing file or a directory")
    func refusesOthers() async throws {
        try await withTemporaryFolder { folder in
            await expect(.notFound) { try await RemoteContent.file(at: folder.appending(component: "absent")) }
            await expect(.wrongKind) { try await RemoteContent.file(at: folder) }
        }
    }
}
