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
        @Test(
            "A bucket on SeaweedFS keeps the promises of every backend",
            .serialized,
            .enabled(if: S3ServerKind.seaweedFS.isInstalled),
            arguments: BackendCheck.all
        )
        func onSeaweedFS(check: BackendCheck) async throws {
            // More files than a page of a list holds.
            try await run(check, on: .seaweedFS, listedFiles: 1100)
        }

        private static let otherKinds: [S3ServerKind] =
            [S3ServerKind.moto].filter(\.isInstalled) + (S3ServerKind.triesSwift ? [.swift] : [])

        @Test(
            "A bucket on other servers keeps the promises of every backend",
            .serialized,
            arguments: otherKinds,
            BackendCheck.all
        )
        func onOtherServers(kind: S3ServerKind, check: BackendCheck) async throws {
            try await run(check, on: kind, listedFiles: TestDepth.choose(quick: 50, deep: 1100))
        }

        /// Runs a check with fewer rounds than in memory, because each needs many requests.
        private func run(_ check: BackendCheck, on kind: S3ServerKind, listedFiles: Int) async throws {
            let rounds = TestDepth.choose(quick: 1, deep: 100)
            let effort = BackendCheck.Effort(rounds: rounds, racers: 8, listedFiles: listedFiles)
            try await check.run(on: S3Server.shared(kind).backend(), effort: effort)
        }
    }
}
