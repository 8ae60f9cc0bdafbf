import Foundation
import RemoteStorage
import RemoteStorageS3
import RemoteStorageTesting
import S3Servers
import Testing

extension S3Tests {
    @Suite("A bucket keeps the promises of every backend")
    struct ConformanceTests {
        /// Fewer rounds than in memory, since each needs many requests; `STORESYNC_RACE_ROUNDS` sets the number.
        private static let effort = BackendCheck.Effort(
            rounds: ProcessInfo.processInfo.environment["STORESYNC_RACE_ROUNDS"].flatMap { Int($0) } ?? 4,
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
