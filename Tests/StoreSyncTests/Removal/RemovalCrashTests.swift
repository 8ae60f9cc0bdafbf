import Foundation
import Operations
import RemoteStorage
import RemoteStorageTesting
import TestSupport
import Testing

@testable import StoreSync

@Suite("A crash during a removal", .timeLimit(.minutes(60)))
struct RemovalCrashTests {
    /// The codes of errors that tell another device that something is missing, or is being removed.
    private static let told: Set<StoreSyncError.Code> = [
        .documentDeleted, .documentMissing, .noUploadedStore, .deregistered, .applicationMissing,
        .applicationIncomplete,
        .encryptionDowngraded,
    ]

    @Test(
        "H10, H21–H23: Other devices recognize a removal that crashed at any request, and the next run completes it",
        arguments: RemovalScene.servers,
        RemovedSubject.allCases
    )
    func everyRequest(server: SimulatedServer, subject: RemovedSubject) async throws {
        let place =
            (SimulatedServer.all.firstIndex { $0 == server } ?? 0)
            + (RemovedSubject.allCases.firstIndex(of: subject) ?? 0)
        for isSealed in TestDepth.isDeep ? [false, true] : [place.isMultiple(of: 2)] {
            let scene = try await RemovalScene(server, isSealed: isSealed)
            let (whole, connection) = try scene.device("a", at: try await scene.restore())
            await connection.die(nil)
            try await scene.remove(subject, by: whole)
            let requests = await connection.requests
            // A crash at a request that changes nothing leaves the same state as at the previous request.
            let deaths = requests.indices.flatMap { number in
                (requests[number].isChange ? [false, true] : TestDepth.isDeep ? [false] : []).map {
                    DyingBackend.Death(request: number, isAfter: $0)
                }
            }
            #expect(deaths.count >= 4)
            let interval = max(1, deaths.count / TestDepth.choose(quick: 1, ci: 2, deep: deaths.count))
            print(
                "crash points of removing \(subject), \(server), sealed \(isSealed): \(deaths.count), every \(interval)"
            )
            let first = (SimulatedServer.all.firstIndex { $0 == server } ?? 0) % interval
            for index in stride(from: first, to: deaths.count, by: interval) {
                let death = deaths[index]
                let comment = "\(server), sealed \(isSealed), \(death): \(requests[death.request].name)"
                let place = try await scene.restore()
                let (a, dying) = try scene.device("a", at: place)
                await dying.die(death)
                _ = try? await scene.remove(subject, by: a)
                #expect(await dying.isDead, "\(comment)")
                if index.isMultiple(of: 2) { try await inspect(scene, place, comment) }
                do {
                    try await scene.remove(subject, by: scene.device("a", at: place).device)
                } catch {
                    Issue.record("\(comment): the second run failed: \(error)")
                    continue
                }
                try await scene.expectRemoved(subject, at: place, comment)
            }
        }
    }

    /// Checks what other devices find: a removal that isn't complete is never taken for something else.
    private func inspect(_ scene: RemovalScene, _ place: InMemoryBackend, _ comment: String) async throws {
        let b = try scene.device("b", at: place).device
        do {
            _ = try await b.pull().value
        } catch let error as StoreSyncError {
            #expect(Self.told.contains(error.code), "\(comment): \(error)")
        }
        #expect(try b.notes() == ["one", "two"], "\(comment)")
        guard scene.fixture.password != nil, try await place.list(.root)?.isEmpty == false else { return }
        // A device that wants no encryption is refused.
        var plain = try scene.device("plain", at: place).device
        plain.password = nil
        let before = try await contents(of: place)
        let refusal = await code { try await plain.register().value }
        #expect(
            [.encryptionMismatch, .applicationIncomplete, .encryptionDowngraded].contains(refusal),
            "\(comment): \(String(describing: refusal))"
        )
        #expect(try await contents(of: place) == before, "\(comment)")
    }
}
