import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import S3Servers
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("The receipts of an upload in parts", .timeLimit(.minutes(60)))
struct UploadReceiptsTests {
    private static let size = Int64(S3Configuration.smallestPartSize)

    private static func list(_ parts: [(number: Int, size: Int64, tag: String)]) throws -> [S3Element] {
        let listed = parts.map {
            "<Part><PartNumber>\($0.number)</PartNumber><ETag>\($0.tag)</ETag><Size>\($0.size)</Size></Part>"
        }
        let list = "<List>\(listed.joined())<Part><PartNumber>1</PartNumber></Part></List>"
        return try S3Element(Array(list.utf8), named: "List").all("Part")
    }

    @Test(
        "Receipts keep the parts that the server lists as acknowledged, up to the first missing or different part",
        arguments: [
            ([(1, size, "a"), (2, size, "b"), (3, size, "c")], 3), ([(2, size, "b"), (1, size, "a")], 2),
            ([(1, size, "a"), (3, size, "c")], 1), ([(2, size, "b"), (3, size, "c")], 0), ([], 0),
            // Another attempt's part under the same number, of the same size.
            ([(1, size, "a"), (2, size, "other"), (3, size, "c")], 1), ([(1, size + 1, "a"), (2, size, "b")], 0),
            // A part without a receipt, then parts that were sent twice, as SeaweedFS lists them.
            ([(1, size, "a"), (2, size, "b"), (3, size, "c"), (4, size, "d")], 3),
            ([(1, size, "other"), (1, size, "a"), (2, size, "b"), (2, size, "other")], 2),
            ([(1, size, "\"a\""), (0, size, "a"), (-1, size, "a")], 1),
        ] as [([(Int, Int64, String)], Int)]
    )
    func kept(listed: [(Int, Int64, String)], expected: Int) throws {
        let noted = "upload\n2 \(Self.size) \"b\"\n1 \(Self.size) \"a\"\n3 \(Self.size) \"c\"\n"
        let receipts = try #require(UploadReceipts(Array(noted.utf8)))
        let kept = receipts.keptParts(try Self.list(listed))
        #expect(kept.keys.sorted() == Array(1..<expected + 1))
        // The completion names the tags that were acknowledged.
        #expect(kept.allSatisfy { number, part in part.tag == ["\"a\"", "\"b\"", "\"c\""][number - 1] })
    }

    @Test("Receipts ignore a part whose size no file can have", arguments: [-1, 0, size - 1, Int64.max] as [Int64])
    func sizes(size: Int64) throws {
        let receipts = try #require(UploadReceipts(Array("upload\n1 \(size) \"a\"\n".utf8)))
        #expect(receipts.keptParts(try Self.list([(1, size, "a")])).isEmpty)
    }

    @Test("Receipts that are damaged or cut off anywhere keep no part that wasn't acknowledged")
    func damage() throws {
        let noted = Array("upload\n1 \(Self.size) \"a\"\n2 \(Self.size) \"b\"\n".utf8)
        let listed = try Self.list([(1, Self.size, "a"), (2, Self.size, "b")])
        for count in noted.indices {
            let kept = UploadReceipts(Array(noted.prefix(count)))?.keptParts(listed) ?? [:]
            #expect(kept.count <= 1 && kept.keys.allSatisfy { $0 == 1 })
            for bit in 0..<8 {
                var damaged = noted
                damaged[count] ^= 1 << UInt8(bit)
                let kept = UploadReceipts(damaged)?.keptParts(listed) ?? [:]
                #expect(kept.allSatisfy { number, part in part.tag == (number == 1 ? "\"a\"" : "\"b\"") })
            }
        }
        #expect(UploadReceipts([]) == nil)
    }
}

extension S3Tests {
    @Suite("A part that a request of an earlier attempt replaces after it was acknowledged", .serialized)
    struct ReplacedPartTests {
        private static let piece = S3Configuration.smallestPartSize

        @Test(
            "A part that an earlier attempt's request replaces after it was acknowledged never gets into the file",
            arguments: S3ServerKind.plainInstalled
        )
        func late(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let direct = try server.configuration()
            var configuration = try server.disguisedConfiguration(prefix: direct.prefix)
            configuration.parallelParts = 1
            configuration.partSize = Self.piece
            let backend = S3Backend(configuration, transport: DisguisedTransport(direct.transport))
            let (path, receipts) = (try RemotePath("file"), InMemoryReceipts())
            let content = RemoteContent(length: nil) {
                var number = UInt8(0)
                return {
                    number += 1
                    if number == 4, let identifier = UploadReceipts(await receipts.read())?.identifier {
                        // As if the network had delayed the request until now.
                        _ = try await backend.perform(
                            .PUT,
                            backend.location.key(path),
                            query: ["partNumber": "1", "uploadId": identifier],
                            payload: S3Payload([UInt8](repeating: 9, count: Self.piece), [])
                        )
                    }
                    return number > 4 ? nil : [UInt8](repeating: number, count: Self.piece)
                }
            }
            let outcome = await Result {
                try await backend.resumeWrite(to: path, when: .always, receipts: receipts) { _ in
                    RemoteContentRest(content, after: 0)
                }
            }
            guard let bytes = try await backend.read(path)?.bytes(upTo: 5 * Self.piece) else {
                #expect(throws: RemoteError.self) { try outcome.get() }
                return
            }
            #expect(bytes == (UInt8(1)...4).flatMap { [UInt8](repeating: $0, count: Self.piece) })
        }
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
