import Foundation
import RemoteStorage
import RemoteStorageS3
import RemoteStorageTesting
import S3Servers
import TestSupport
import Testing

extension S3Tests {
    @Suite("A bucket keeps the promises of every backend")
    struct ConformanceTests {
        /// Fewer rounds than in memory, because each needs many requests.
        private static let effort = BackendCheck.Effort(
            rounds: TestDepth.choose(quick: 1, ci: 4, deep: 100),
            racers: 8,
            listedFiles: 1100
        )

        private static let kinds = S3ServerKind.plainInstalled + (S3ServerKind.triesSwift ? [.swift] : [])

        @Test("on a server", arguments: kinds, BackendCheck.all)
        func conforms(kind: S3ServerKind, check: BackendCheck) async throws {
            let server = try await S3Server.shared(kind)
            try await check.run(on: server.backend(), effort: Self.effort)
        }
    }
}
