import Foundation
import RemoteStorage
import S3Servers
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageS3

extension S3Tests {
    @Suite("A multipart upload that the server completed although no answer arrived", .serialized)
    struct CompletionTests {
        @Test(
            "is recognized by the next write of the same bytes, which sends no part again",
            arguments: S3ServerKind.plainInstalled
        )
        func lostAnswers(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let path = try RemotePath("large")
            let isBroken = Locked(true)
            let proxy = try FaultProxy(to: server.port) { _, line in
                let isCompletion = line.hasPrefix("POST") && line.contains("large?uploadId=")
                return isCompletion && isBroken.withLock(\.self) ? .loseReply : .none
            }
            var configuration = try server.configuration(port: proxy.port, prefix: UUID().uuidString)
            configuration.partSize = S3Configuration.smallestPartSize
            let backend = S3Backend(configuration)
            let bytes = [UInt8](repeating: 7, count: 2 * configuration.partSize + 1)
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write(RemoteContent(bytes), to: path, when: .always)
            }
            #expect(error?.code == .unavailable)
            isBroken.withLock { $0 = false }
            let before = proxy.lines.count
            let written = try await backend.write(RemoteContent(bytes), to: path, when: .always)
            #expect(!proxy.lines.dropFirst(before).contains { $0.contains("partNumber=") })
            #expect(try await backend.status(of: path)?.tag == written.tag)
            #expect(try await backend.bytes(at: path, upTo: bytes.count) == bytes)
            // Content of the same parts but the last isn't mistaken for it.
            isBroken.withLock { $0 = true }
            await #expect(throws: RemoteError.self) {
                try await backend.write(RemoteContent(bytes), to: path, when: .always)
            }
            isBroken.withLock { $0 = false }
            let shorter = Array(bytes.dropLast())
            do {
                try await backend.write(RemoteContent(shorter), to: path, when: .always)
                #expect(try await backend.bytes(at: path, upTo: bytes.count) == shorter)
            } catch let error as RemoteError {
                #expect(error.code == .unavailable)
            }
        }
    }
}
