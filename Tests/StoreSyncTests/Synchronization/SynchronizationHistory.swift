import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import StoreChanges
import TestSupport
import Testing

@testable import StoreSync

/// Devices that edit, synchronize and have accidents in a random order, each over a connection with faults of its own.
///
/// The order of what happens, the faults of the storage and the deaths of devices depend on the seed only.
final class SynchronizationHistory {
    /// A device, its connection, and what the storage hides from it.
    final class Member {
        var device: Device
        let connection: SimulatedBackend
        let veil: VeiledBackend
        /// How far its clock is from the right time, in seconds.
        let clockError: TimeInterval
        /// The values of edits that aren't known to be published.
        var unpublished: Set<String> = []

        init(_ device: Device, _ connection: SimulatedBackend, _ veil: VeiledBackend, clockError: TimeInterval) {
            (self.device, self.connection, self.veil, self.clockError) = (device, connection, veil, clockError)
        }
    }

    /// A copy of all files of a device.
    struct Backup {
        let folder: URL
        let unpublished: Set<String>
    }

    static let accidents = 0.2
    static let faults = 0.02
    private static let year: TimeInterval = 365 * 24 * 60 * 60

    let fixture: Fixture
    let server: SimulatedServer
    let place: InMemoryBackend
    let simulation: Simulation
    let seed: UInt64
    var random: SplitMix64
    var members: [Member] = []
    var backups: [String: Backup] = [:]
    var ledger = EditLedger()
    var log: [String] = []
    /// The number of values that edits have written.
    var values = 0
    /// The former contents of the column `extra`, by title: a device whose app doesn't have the column deletes them unseen.
    var extras: [String: [String]] = [:]

    init(_ server: SimulatedServer, _ seed: UInt64, _ simulation: Simulation) throws {
        (self.server, self.seed, self.simulation) = (server, seed, simulation)
        place = InMemoryBackend(identity: "simulated:", capabilities: server.capabilities)
        fixture = try Fixture(place: place, simulation: simulation, seed: seed)
        random = SplitMix64(seed: seed)
    }

    var comment: Comment { "\(server), seed \(seed)\n\(log.joined(separator: "\n"))" }

    func run() async throws {
        for _ in 0..<Int.random(in: 2...3, using: &random) { try add("\(members.count)") }
        try migrate(members[0], to: 1)
        _ = try await members[0].device.synchronize().value
        for member in members { await member.connection.set(server.faults(Self.faults)) }
        for _ in 0..<24 {
            let member = members[Int.random(in: members.indices, using: &random)]
            if Double.random(in: 0..<1, using: &random) < Self.accidents {
                try await accident(of: member)
            } else if Bool.random(using: &random), hasStore(member) {
                try edit(member)
            } else {
                await synchronize(member)
            }
        }
        try await settle()
    }

    /// Adds a device whose files may be there already.
    @discardableResult
    func add(_ name: String) throws -> Member {
        let number = UInt64(members.count)
        let connection = SimulatedBackend(server, seed: seed &* 16 &+ number, storage: place, clock: simulation.clock)
        let veil = VeiledBackend(connection)
        let clockError = Bool.random(using: &random) ? 0 : .random(in: -Self.year...0, using: &random)
        let device = try fixture.device(name, clockError: clockError, backend: veil)
        members.append(Member(device, connection, veil, clockError: clockError))
        return members[members.count - 1]
    }

    func hasStore(_ member: Member) -> Bool { FileManager.default.fileExists(atPath: member.device.store.path) }

    // MARK: Synchronizing

    /// The errors that faults and accidents may cause.
    private static let allowed: Set<StoreSyncError.Code> = [
        .remoteUnavailable, .busy, .noUploadedStore, .applicationIncomplete, .cannotWrite, .rolledBack, .storeNotFound,
        .identityTwice, .deregistered, .storeReplaced, .massDeletion,
        // A device that starts over from the newest store, which an updated app has published.
        .newerSchema,
    ]

    private func synchronize(_ member: Member) async {
        if Int.random(in: 0..<4, using: &random) == 0 {
            await member.connection.die(afterRequests: Int.random(in: 0..<30, using: &random))
        }
        if hasStore(member), Int.random(in: 0..<5, using: &random) == 0 {
            await attempt(member, "vacuums") { _ = try await member.device.vacuum().value }
        } else {
            _ = await attempt(member)
        }
        await member.connection.revive()
    }

    /// Synchronizes, with what a user would answer to an error; returns whether the device is in step.
    @discardableResult
    func attempt(_ member: Member, taking side: TakenSide? = nil) async -> Bool {
        let code = await attempt(member, "synchronizes" + (side.map { " and takes \($0)" } ?? "")) {
            let request = SynchronizationRequest(url: member.device.store, allowsDeletions: true, takenSide: side)
            let result = try await member.device.synchronize(request).value
            self.log.append("  \(result.warnings) waits for \(result.waitingFor)")
            let isAlarm = result.warnings.contains { $0.contains("their stores differ") }
            #expect(!isAlarm, self.comment)
            member.unpublished = []
        }
        switch code {
        case .storeReplaced where side == nil:
            ledger.giveUp(member.unpublished)
            member.unpublished = []
            return await attempt(member, taking: .remote)
        case .storeReplaced:
            startOver(member)
            return await attempt(member)
        case .storeNotFound where !hasStore(member) && side == nil:
            return await attempt(member, taking: .remote)
        case .deregistered:
            await attempt(member, "registers again") {
                _ = try await member.device.supervisor.add(member.device.registration(registersAgain: true)).value
            }
            return false
        default: return code == nil
        }
    }

    /// Lets a device be another one, as the refusal of a store with another schema says.
    private func startOver(_ member: Member) {
        do {
            let home = fixture.folder.appending(path: member.device.name, directoryHint: .isDirectory)
            for name in try FileManager.default.contentsOfDirectory(atPath: home.path) {
                try FileManager.default.removeItem(at: home.appending(path: name))
            }
            let name = member.device.name
            member.device = try fixture.device(name, clockError: member.clockError, backend: member.veil)
            log.append("\(name) starts over as another device")
        } catch {
            Issue.record("\(error)\n\(comment)")
        }
    }

    @discardableResult
    private func attempt(
        _ member: Member,
        _ what: String,
        _ body: () async throws -> Void
    ) async -> StoreSyncError.Code? {
        do {
            log.append("\(member.device.name) \(what)")
            try await body()
            return nil
        } catch let error as StoreSyncError {
            log.append("  \(error.code) \(error.message)")
            #expect(Self.allowed.contains(error.code), comment)
            return error.code
        } catch {
            Issue.record("\(error)\n\(comment)")
            return .corrupt
        }
    }

    // MARK: The end

    /// Lets everything arrive, and compares the stores with each other and with the edits.
    private func settle() async throws {
        log.append("the end")
        for member in members {
            await member.connection.set(.none)
            await member.connection.revive()
            await member.veil.showAll()
        }
        let version = try members.filter(hasStore).map(version).max() ?? 1
        for _ in 0..<5 {
            for member in members {
                _ = await attempt(member)
                // Opening a store that isn't there would create it.
                if hasStore(member) { try migrate(member, to: version) }
            }
        }
        let expected = try content(members[0])
        for member in members {
            let result: Synchronization
            do {
                result = try await member.device.synchronize().value
            } catch {
                Issue.record("\(member.device.name): \(error)\n\(comment)")
                continue
            }
            let isIdle = result.publishedChanges == 0 && result.applied.isEmpty && result.waitingFor.isEmpty
            // A removal may have failed when its file was written in part.
            let warnings = result.warnings.filter { !$0.contains("/DeletedClients/") }
            #expect(isIdle && warnings.isEmpty, "\(member.device.name): \(result)\n\(comment)")
            #expect(try content(member) == expected, "\(member.device.name)\n\(comment)")
            #expect(try member.device.query("SELECT 1 FROM pragma_foreign_key_check").isEmpty, comment)
        }
        var (lost, touched): (Set<String>, Set<String>) = ([], [])
        for member in members { try await collect(member.device, &lost, &touched) }
        let texts = try texts(members[0])
        let problems = ledger.problems(present: texts, lost: lost, touched: touched)
        #expect(problems.isEmpty, "\(problems)\n\(comment)")
        let clients = try members.compactMap { try $0.device.synchronizationMemory()?.client }
        let damaged = try await members[0].device.verify().value.problems.filter { problem in
            // A removal may have failed before it removed the time of its client, which was written in part.
            guard let name = problem.path.split(separator: "/").last, name.hasSuffix(".recentsync") else { return true }
            return SyncHeadName(String(name)) != nil || clients.contains { name.hasPrefix($0) }
        }
        #expect(damaged.isEmpty, "\(damaged)\n\(comment)")
    }

    /// Adds what a device's conflict log has.
    private func collect(_ device: Device, _ lost: inout Set<String>, _ touched: inout Set<String>) async throws {
        let rows = try device.query("SELECT id || ' ' || title FROM note")
        let titles = rows.map { $0.split(separator: " ", maxSplits: 1) }
        let titleOfKey = Dictionary(titles.map { (String($0[0]), String($0[1])) }) { first, _ in first }
        for entry in try await ConflictLog(ofStoreAt: device.store, state: device.state).entries() {
            lost.formUnion(entry.conflict.lost.values.compactMap(\.string))
            touched.formUnion(entry.conflict.lost.values.compactMap(\.string))
            touched.formUnion(entry.conflict.kept.values.compactMap(\.string))
            if entry.conflict.row.table == "note", let title = titleOfKey[entry.key] { touched.insert(title) }
        }
    }
}

extension Cell {
    fileprivate var string: String? {
        guard case .value(.text(let bytes)) = self else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }
}
