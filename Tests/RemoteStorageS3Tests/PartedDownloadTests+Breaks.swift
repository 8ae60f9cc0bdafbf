import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

extension PartedDownloadTests {
    @Test("If the first response breaks, its rest is fetched in parts too")
    func brokenBeginning() async throws {
        let requests = Locked(Requests())
        let first = RemoteContent(length: 8) {
            var isFirst = true
            return {
                guard isFirst else { throw RemoteError(.unavailable, "The connection broke off.") }
                isFirst = false
                return [0]
            }
        }
        let download = PartedDownload(first, rest: 8..<20, partSize: 3, parallelParts: 2) { range in
            requests.withLock { $0.begun.append(range) }
            return Self.bytes(range)
        }
        var chunks: [[UInt8]] = []
        while let chunk = try await download.next() { chunks.append(chunk) }
        #expect(chunks == [0..<1, 1..<4, 4..<7, 7..<8, 8..<11, 11..<14, 14..<17, 17..<20].map { Self.bytes($0) })
        #expect(requests.withLock { $0.begun.count } == 7)
    }

    @Test("A file of any size arrives whole although the first response broke", arguments: [100, 3 * partSize])
    func brokenResponse(count: Int) async throws {
        var file = OneFile(bytes: Self.pattern(count))
        file.answer = { number, usual in
            guard number == 1 else { return usual }
            return HTTPResponse(status: 206, headers: usual.headers, bytes: Array(usual.bytes.prefix(10)))
        }
        let content = try #require(try await file.backend.read(RemotePath("file")))
        let isSame = try await content.bytes(upTo: count) == file.bytes
        #expect(isSame)
        #expect(file.ranges.withLock { $0.contains { $0.hasPrefix("bytes=10-") } })
    }

    @Test("A range arrives whole although the first response broke, if the server identifies the version")
    func brokenRange() async throws {
        var file = OneFile(bytes: Self.pattern(100))
        file.answer = { number, usual in
            guard number == 1 else { return usual }
            return HTTPResponse(status: 206, headers: usual.headers, bytes: Array(usual.bytes.prefix(10)))
        }
        let content = try #require(try await file.backend.read(RemotePath("file"), range: 5..<50))
        #expect(content.length == 45)
        #expect(try await content.bytes(upTo: 45) == Array(file.bytes[5..<50]))
        #expect(file.ranges.withLock(\.self) == ["bytes=5-49", "bytes=15-49"])
        // Without a tag, the one response is all there is.
        file.answer = { _, usual in
            var response = usual
            response.headers.remove(name: "ETag")
            return response
        }
        let whole = try #require(try await file.backend.read(RemotePath("file"), range: 5..<50))
        #expect(try await whole.bytes(upTo: 45) == Array(file.bytes[5..<50]))
        #expect(file.ranges.withLock { $0.count } == 3)
    }

    @Test("A response whose file is shorter than its range is an error", arguments: [nil, 0..<100] as [Range<Int64>?])
    func impossibleLength(range: Range<Int64>?) async throws {
        var file = OneFile(bytes: Self.pattern(100))
        file.answer = { _, usual in
            var response = usual
            response.headers.replaceOrAdd(name: "Content-Range", value: "bytes 0-99/50")
            return response
        }
        let backend = try file.backend
        let error = await #expect(throws: RemoteError.self) {
            _ = try await backend.read(RemotePath("file"), range: range)?.bytes(upTo: 100)
        }
        #expect(error?.code == .unavailable && error?.message.contains("sent another part") == true)
    }
}
