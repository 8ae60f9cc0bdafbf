import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import TestSupport
import Testing

@testable import StoreSync

@Suite("Devices that edit at once, on storage that misbehaves", .timeLimit(.minutes(600)))
struct SynchronizationHistoryTests {
    @Test(
        "After all devices have synchronized, their stores are equal, and every inserted row is there",
        arguments: SimulatedServer.all
    )
    func histories(server: SimulatedServer) async throws {
        guard server.capabilities.contains(.exclusiveCreate) else { return }
        for seed in TestDepth.seeds(quick: 2, ci: 6, deep: 10_000) {
            try await Simulation.run(seed: seed) { simulation in
                try await History(server, seed, simulation).run()
            }
        }
    }

    /// Devices that edit and synchronize in a random order, each over a connection with faults of its own.
    private final class History {
        private let fixture: Fixture
        private let server: SimulatedServer
        private let connections: [SimulatedBackend]
        private var random: SplitMix64
        private var inserted: Set<String> = []
        private var log: [String] = []
        private let comment: String

        init(_ server: SimulatedServer, _ seed: UInt64, _ simulation: Simulation) throws {
            let place = InMemoryBackend(identity: "simulated:", capabilities: server.capabilities)
            fixture = try Fixture(place: place, simulation: simulation)
            random = SplitMix64(seed: seed)
            connections = (0..<Int.random(in: 2...3, using: &random)).map {
                SimulatedBackend(server, seed: seed &* 4 &+ UInt64($0), place: place, clock: simulation.clock)
            }
            (self.server, comment) = (server, "\(server), seed \(seed)")
        }

        func run() async throws {
            let devices = try connections.enumerated().map { try fixture.device("\($0)", backend: $1) }
            try devices[0].execute(
                """
                CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
                CREATE TABLE note (id INTEGER PRIMARY KEY, list INTEGER REFERENCES list ON DELETE CASCADE, title TEXT);
                INSERT INTO list (name) VALUES ('inbox')
                """
            )
            _ = try await devices[0].synchronize().value
            for connection in connections { await connection.set(server.faults(0.02)) }
            for step in 0..<20 {
                let index = devices.indices.randomElement(using: &random) ?? 0
                let device = devices[index]
                if Bool.random(using: &random), FileManager.default.fileExists(atPath: device.store.path) {
                    try edit(device, step)
                } else {
                    try await synchronize(device, connections[index])
                }
            }
            for connection in connections {
                await connection.set(.none)
                await connection.revive()
            }
            // Twice, so that everything arrives everywhere.
            for device in devices + devices { try await settle(device) }
            let expected = try devices[0].query("SELECT name FROM list UNION ALL SELECT title FROM note ORDER BY 1")
            for device in devices {
                let rows = try device.query("SELECT name FROM list UNION ALL SELECT title FROM note ORDER BY 1")
                #expect(rows == expected, "\(comment)\n\(log.joined(separator: "\n"))")
                let references = try device.query("SELECT * FROM pragma_foreign_key_check")
                #expect(references.isEmpty, "\(comment)\n\(log.joined(separator: "\n"))")
            }
            #expect(inserted.isSubset(of: expected), "\(comment)\n\(log.joined(separator: "\n"))")
        }

        private func edit(_ device: Device, _ step: Int) throws {
            let title = "\(device.name) \(step)"
            let statement =
                [
                    "INSERT INTO note (list, title) SELECT min(id), '\(title)' FROM list",
                    "INSERT INTO list (name) VALUES ('\(title)')",
                    "UPDATE note SET list = (SELECT max(id) FROM list)",
                    "UPDATE note SET title = title WHERE id = 1",
                ].randomElement(using: &random) ?? ""
            if statement.hasPrefix("INSERT") { inserted.insert(title) }
            try device.execute(statement)
            log.append("\(device.name): \(statement)")
        }

        private func synchronize(_ device: Device, _ connection: SimulatedBackend) async throws {
            if Int.random(in: 0..<4, using: &random) == 0 {
                await connection.die(afterRequests: Int.random(in: 0..<30, using: &random))
            }
            let exists = FileManager.default.fileExists(atPath: device.store.path)
            do {
                if exists, Int.random(in: 0..<4, using: &random) == 0 {
                    let vacuum = try await device.vacuum().value
                    log.append("\(device.name) vacuums: \(vacuum)")
                } else {
                    let warnings = try await device.synchronize().value.warnings
                    log.append("\(device.name) synchronizes \(warnings)")
                    let isAlarm = warnings.contains { $0.contains("their stores differ") }
                    #expect(!isAlarm, "\(comment)\n\(log.joined(separator: "\n"))")
                }
            } catch let error as StoreSyncError {
                log.append("\(device.name) synchronizes: \(error.code) \(error.message)")
                // A device that has no store yet may find what another one has begun to publish.
                let allowed: Set<StoreSyncError.Code> = [
                    .remoteUnavailable, .busy, .noUploadedStore, .applicationIncomplete, .cannotWrite, .rolledBack,
                    // A vacuum before the first synchronization has completed.
                    .storeNotFound,
                ]
                #expect(allowed.contains(error.code), "\(comment)\n\(log.joined(separator: "\n"))")
            }
            await connection.revive()
        }

        private func settle(_ device: Device) async throws {
            do {
                let warnings = try await device.synchronize().value.warnings
                let isAlarm = warnings.contains { $0.contains("their stores differ") }
                #expect(!isAlarm, "\(comment)\n\(log.joined(separator: "\n"))")
            } catch {
                Issue.record("\(comment): \(error)\n\(log.joined(separator: "\n"))")
            }
        }
    }
}
