import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import TestSupport
import Testing

@testable import StoreSync

@Suite("Two devices, one of which removes while the other works", .timeLimit(.minutes(60)))
struct RemovalRaceTests {
    /// The kinds of storage that differ in what a removal relies on.
    private static let servers: [SimulatedServer] = [.apache, .rclone, .aws]

    /// The codes of the errors of a push at the moment of a removal.
    private static let told: Set<StoreSyncError.Code> = [
        .documentDeleted, .documentMissing, .documentReplaced, .noUploadedStore, .deregistered, .busy, .corrupt,
        .applicationMissing, .applicationIncomplete, .encryptionDowngraded, .rolledBack,
    ]

    /// Pushes a changed store, and expects success or an error that says what happened.
    private static func push(_ device: Device, _ comment: String) async {
        do {
            _ = try await device.push().value
        } catch is CancellationError {
            // The delegate was asked whether to recreate the document, and disagreed.
        } catch let error as StoreSyncError {
            #expect(told.contains(error.code), "\(comment): \(error)")
        } catch {
            Issue.record("\(comment): \(error)")
        }
    }

    private static func remove(
        _ subject: RemovedSubject,
        _ scene: RemovalScene,
        by device: Device,
        _ comment: String
    ) async {
        do {
            try await scene.remove(subject, by: device)
        } catch let error as StoreSyncError where subject == .clientOfDocument && error.code == .clientNotFound {
            // The client has acted on the note, and isn't registered with the document any more.
        } catch {
            Issue.record("\(comment): \(error)")
        }
    }

    /// Expects that the next run completes the removal, and that the other device's store is as it was.
    private static func expectCompleted(
        _ subject: RemovedSubject,
        _ scene: RemovalScene,
        at place: InMemoryBackend,
        _ comment: String
    ) async throws {
        let b = try scene.device("b", at: place).device
        #expect(try b.notes() == ["one", "two", "three"], "\(comment)")
        await remove(subject, scene, by: try scene.device("a", at: place).device, comment)
        if subject != .clientOfDocument, subject != .clientOfApplication {
            try await scene.expectRemoved(subject, at: place, comment)
            return
        }
        // The upload of the removed client stays as a head until a device includes it.
        let report = try await scene.device("a", at: place).device.verify().value
        #expect(report.problems.isEmpty, "\(comment): \(report)")
        let expected: StoreSyncError.Code = subject == .clientOfDocument ? .documentReplaced : .deregistered
        try b.write("four")
        #expect(await code { try await b.push().value } == expected, "\(comment)")
    }

    @Test(
        "H21–H23: A push that runs between any two requests of a removal loses nothing local, and the removal completes",
        arguments: servers,
        RemovedSubject.allCases
    )
    func pushMeanwhile(server: SimulatedServer, subject: RemovedSubject) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        let (whole, counting) = try scene.device("a", at: try await scene.restore())
        await counting.die(nil)
        try await scene.remove(subject, by: whole)
        let count = await counting.requests.count
        for number in Self.sample(count, server, subject) {
            let comment = "\(server), \(subject), a push before request \(number)"
            let place = try await scene.restore()
            let (a, connection) = try scene.device("a", at: place)
            let b = try scene.device("b", at: place).device
            try b.write("three")
            await connection.meet(atRequest: number) { await Self.push(b, comment) }
            await Self.remove(subject, scene, by: a, comment)
            try await Self.expectCompleted(subject, scene, at: place, comment)
        }
    }

    /// Every few requests, from another first one for each server and subject: together they try most of them.
    private static func sample(
        _ count: Int,
        _ server: SimulatedServer,
        _ subject: RemovedSubject
    ) -> StrideTo<Int> {
        let interval = TestDepth.choose(quick: 17, deep: 1)
        let index = (servers.firstIndex { $0 == server } ?? 0) * RemovedSubject.allCases.count
        let first = index + (RemovedSubject.allCases.firstIndex { $0 == subject } ?? 0)
        return stride(from: first % interval, to: count, by: interval)
    }

    @Test(
        "H21–H23: A removal that runs between any two requests of a push loses nothing local, and can be completed",
        arguments: servers,
        RemovedSubject.allCases
    )
    func removalMeanwhile(server: SimulatedServer, subject: RemovedSubject) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        let (whole, counting) = try scene.device("b", at: try await scene.restore())
        try whole.write("three")
        await counting.die(nil)
        _ = try await whole.push().value
        let count = await counting.requests.count
        for number in Self.sample(count, server, subject) {
            let comment = "\(server), \(subject), a removal before request \(number) of a push"
            let place = try await scene.restore()
            let (b, connection) = try scene.device("b", at: place)
            let a = try scene.device("a", at: place).device
            try b.write("three")
            await connection.meet(atRequest: number) { await Self.remove(subject, scene, by: a, comment) }
            await Self.push(b, comment)
            try await Self.expectCompleted(subject, scene, at: place, comment)
        }
    }

    @Test(
        "H21–H23: A removal and a push in any order of their requests lose nothing local, and the removal completes",
        arguments: servers,
        RemovedSubject.allCases
    )
    func concurrently(server: SimulatedServer, subject: RemovedSubject) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        for seed in TestDepth.seeds(quick: 1, deep: 400) {
            let comment = "\(server), \(subject), seed \(seed)"
            let place = try await scene.restore()
            try await Simulation.run(seed: seed) { simulation in
                let a = try scene.device("a", at: place, in: simulation).device
                let b = try scene.device("b", at: place, in: simulation).device
                try b.write("three")
                async let removing: Void = Self.remove(subject, scene, by: a, comment)
                async let pushing: Void = Self.push(b, comment)
                _ = await (removing, pushing)
            }
            try await Self.expectCompleted(subject, scene, at: place, comment)
        }
    }

    @Test(
        "H22: A document that is created again between any two requests of a removal is whole, or is refused",
        arguments: servers
    )
    func recreatedMeanwhile(server: SimulatedServer) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        let (whole, counting) = try scene.device("a", at: try await scene.restore())
        await counting.die(nil)
        try await scene.remove(.document, by: whole)
        let count = await counting.requests.count
        for number in stride(from: 0, to: count + 1, by: TestDepth.choose(quick: 17, deep: 1)) {
            let comment = "\(server), recreated before request \(number)"
            let place = try await scene.restore()
            let (a, connection) = try scene.device("a", at: place)
            let b = try scene.device("b", at: place).device
            try b.write("three")
            let create = { @Sendable in
                let refusal = await Self.refusal { try await b.push(recreates: true).value }
                #expect(refusal.map { Self.told.contains($0) } ?? true, "\(comment): \(String(describing: refusal))")
            }
            if number < count { await connection.meet(atRequest: number, create) }
            try await scene.remove(.document, by: a)
            if number >= count { await create() }
            let reader = try scene.device("reader", at: place).device
            do {
                _ = try await reader.pull().value
                #expect(try reader.notes() == ["one", "two", "three"], "\(comment)")
            } catch let error as StoreSyncError {
                #expect(error.code == .documentDeleted && number < count, "\(comment): \(error)")
            }
            #expect(try await reader.verify().value.problems.isEmpty, "\(comment)")
        }
    }

    /// Returns the code of the ``StoreSyncError`` that `body` throws, or `nil` if it throws nothing.
    private static func refusal(of body: () async throws -> some Any) async -> StoreSyncError.Code? {
        do {
            _ = try await body()
        } catch let error as StoreSyncError {
            return error.code
        } catch {
            Issue.record("\(error)")
        }
        return nil
    }

    @Test("H22: Two devices that remove a document in any order of their requests both succeed", arguments: servers)
    func twoRemovers(server: SimulatedServer) async throws {
        let scene = try await RemovalScene(server, isSealed: true)
        for seed in TestDepth.seeds(quick: 2, deep: 400) {
            let comment = "\(server), seed \(seed)"
            let place = try await scene.restore()
            try await Simulation.run(seed: seed) { simulation in
                let a = try scene.device("a", at: place, in: simulation).device
                let b = try scene.device("b", at: place, in: simulation).device
                async let first: Void = Self.remove(.document, scene, by: a, comment)
                async let second: Void = Self.remove(.document, scene, by: b, comment)
                _ = await (first, second)
            }
            try await scene.expectRemoved(.document, at: place, comment)
        }
    }
}
