import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Baselines with a damaged file", .timeLimit(.minutes(60)))
struct DamagedBaselineTests {
    /// What the name of a file begins with.
    enum Part: String, CaseIterable {
        case store = "WholeStore"
        case checkpoint = "AppliedSyncChangeSets"
        case manifest
    }

    private static let hour: TimeInterval = 60 * 60
    private static let advice = "run storesync verify and then storesync vacuum"

    /// Changes a byte in a file of the newest baseline that a device knows.
    private func damage(_ part: Part, ofNewestBaselineOf device: Device, _ fixture: Fixture) throws {
        try damage(part, of: #require(try device.synchronizationMemory()?.baselines.first), fixture)
    }

    private func damage(_ part: Part, of baseline: SyncBaseline, _ fixture: Fixture) throws {
        let name = baseline.upload
        let files = try fixture.files().filter { path, _ in
            path.contains(name.directoryName) && path.split(separator: "/").last?.hasPrefix(part.rawValue) == true
        }
        let file = try #require(files.first)
        var bytes = file.value
        bytes[bytes.count / 2] ^= 1
        try fixture.put(bytes, at: file.key)
    }

    /// A device that has written two baselines, of which the newer one has an edit more.
    private func deviceWithTwoBaselines(_ fixture: Fixture) async throws -> Device {
        let a = try await fixture.devicesWithNotes("a")[0]
        for _ in 1...2 {
            try await fixture.writeLargeNotes(1, by: a)
            #expect(try await a.vacuum().value.isBaselineWritten)
        }
        return a
    }

    /// Two devices that have each written a baseline; the one of the second device is the newest, and contains all edits.
    private func twoWriters(_ fixture: Fixture) async throws -> (Device, newest: Device) {
        let (a, z) = try await fixture.devicesWithNotes("a", "z").pair
        _ = try await a.synchronize().value
        try await fixture.writeLargeNotes(2, by: a)
        for device in [a, z] { _ = try await device.synchronize().value }
        #expect(try await a.vacuum().value.isBaselineWritten)
        try await fixture.writeLargeNotes(1, by: z)
        #expect(try await z.vacuum().value.isBaselineWritten)
        return (a, z)
    }

    @Test(
        "Devices begin with an older store if the newest one is damaged, and are told how it's replaced",
        arguments: [Part.store, .checkpoint],
        [nil, "correct horse"]
    )
    func beginning(part: Part, password: String?) async throws {
        let fixture = try Fixture(password: password)
        let a = try await deviceWithTwoBaselines(fixture)
        try damage(part, ofNewestBaselineOf: a, fixture)
        let joiner = try fixture.device("joiner")
        let joined = try await joiner.synchronize().value
        #expect(joined.warnings.contains { $0.contains(Self.advice) }, "\(joined.warnings)")
        #expect(!joined.warnings.contains { $0.contains("--generation") }, "no baseline is pulled: \(joined.warnings)")
        #expect(try joiner.titles() == a.titles())
        for side in [TakenSide.remote, .both] {
            let other = try fixture.device("other-\(side)")
            try other.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
            _ = try await other.synchronize { $0.takenSide = side }.value
            #expect(try other.titles() == a.titles())
        }
        try FileManager.default.removeItem(at: joiner.store)
        _ = try await joiner.synchronize { $0.takenSide = .remote }.value
        #expect(try joiner.titles() == a.titles())
        #expect(try await a.synchronize { $0.rebuildsReplica = true }.value.applied.isEmpty)
        #expect(try a.titles() == joiner.titles())
    }

    @Test(
        "A vacuum replaces a baseline that a verification has found damaged, and the next one has nothing to do",
        arguments: Part.allCases,
        [nil, "correct horse"]
    )
    func replacing(part: Part, password: String?) async throws {
        let fixture = try Fixture(password: password)
        let a = try await deviceWithTwoBaselines(fixture)
        try damage(part, ofNewestBaselineOf: a, fixture)
        let problems = try await a.verify().value.problems
        #expect(!problems.isEmpty && problems.allSatisfy { $0.message.contains(Self.advice) }, "\(problems)")
        #expect(try await a.vacuum().value.isBaselineWritten)
        let left = try await a.verify().value.problems
        #expect(left.isEmpty, "\(left)")
        #expect(try await a.vacuum().value.isBaselineWritten == false)
        let joiner = try fixture.device("joiner")
        let joined = try await joiner.synchronize().value
        #expect(joined.warnings.isEmpty, "\(joined.warnings)")
        #expect(try joiner.titles() == a.titles())
    }

    @Test("A vacuum replaces a damaged baseline, and what builds on it", arguments: [Part.store, .checkpoint])
    func base(part: Part) async throws {
        let fixture = try Fixture(password: "correct horse")
        let a = try await deviceWithTwoBaselines(fixture)
        try damage(part, of: #require(try a.synchronizationMemory()?.baselines.last), fixture)
        #expect(try await !a.verify().value.problems.isEmpty)
        #expect(try await a.vacuum().value.isBaselineWritten)
        let left = try await a.verify().value.problems
        #expect(left.isEmpty, "\(left)")
        // Two undamaged baselines are enough.
        _ = try await a.vacuum().value
        #expect(try await a.vacuum().value.isBaselineWritten == false)
    }

    @Test("A damaged first store is replaced before the first edit, too")
    func firstStore() async throws {
        let fixture = try Fixture()
        let a = try await fixture.devicesWithNotes("a")[0]
        let path = try #require(
            try fixture.files().keys.first { $0.contains("/1-") && $0.hasSuffix("/\(WholeStoreFile.store.rawValue)") }
        )
        var bytes = try #require(try fixture.files()[path])
        bytes[bytes.count - 1] ^= 1
        try fixture.put(bytes, at: path)
        let joiner = try fixture.device("joiner")
        let error = await #expect(throws: StoreSyncError.self) { try await joiner.synchronize().value }
        #expect(error?.message.contains(Self.advice) == true, "\(error as Any)")
        #expect(try await !a.verify().value.problems.isEmpty)
        #expect(try await a.vacuum().value.isBaselineWritten)
        _ = try await joiner.synchronize().value
        #expect(try joiner.titles() == ["first"])
    }

    @Test("Edits stay on the remote if only one baseline that isn't known to be damaged contains them")
    func pruning() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, z) = try await twoWriters(fixture)
        _ = try await a.synchronize().value
        try damage(.store, ofNewestBaselineOf: z, fixture)
        #expect(try await !a.verify().value.problems.isEmpty)
        let former = try fixture.segments(of: a)
        #expect(former.count == 2)
        try await fixture.writeLargeNotes(1, by: a)
        #expect(try a.synchronizationMemory()?.removed == 0)
        #expect(try Set(fixture.segments(of: a)).isSuperset(of: former))
        // Two undamaged baselines contain them now.
        #expect(try await a.vacuum().value.isBaselineWritten)
        #expect(try a.synchronizationMemory()?.removed == 2)
        #expect(try Set(fixture.segments(of: a)).isDisjoint(with: former))
        // The damaged one stays until its own device replaces it.
        #expect(try await !z.verify().value.problems.isEmpty)
        _ = try await z.synchronize().value
        #expect(try await z.vacuum().value.isBaselineWritten)
        let problems = try await z.verify().value.problems
        #expect(problems.isEmpty, "\(problems)")
    }

    @Test("A manifest that was still arriving at a verification counts when it's there, without another verification")
    func arrivingManifest() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, z) = try await twoWriters(fixture)
        _ = try await a.synchronize().value
        try damage(.manifest, ofNewestBaselineOf: z, fixture)
        #expect(try await !a.verify().value.problems.isEmpty)
        // A second flip of the same bytes repairs the manifest.
        try damage(.manifest, ofNewestBaselineOf: z, fixture)
        #expect(try await a.vacuum().value.isBaselineWritten == false)
    }

    @Test(
        "A vacuum doesn't replace a damaged baseline while this device lacks edits of others",
        arguments: [false, true]
    )
    func missingEdits(areMissing: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await fixture.devicesWithNotes("a", "z", "c")
        let (a, z, c) = (all[0], all[1], all[2])
        try await fixture.writeLargeNotes(1, by: a)
        #expect(try await a.vacuum().value.isBaselineWritten)
        let own = try #require(try a.synchronizationMemory()?.baselines.first)
        _ = try await z.synchronize().value
        // These two are enough for devices that join.
        for _ in 0..<2 {
            try await fixture.writeLargeNotes(1, by: z)
            #expect(try await z.vacuum().value.isBaselineWritten)
        }
        _ = try await a.synchronize().value
        try damage(.store, of: own, fixture)
        if areMissing {
            try await fixture.writeLargeNotes(1, by: c)
            for path in try fixture.segments(of: c) { try fixture.put(nil, at: path) }
        }
        #expect(try await !a.verify().value.problems.isEmpty)
        #expect(try await a.vacuum().value.isBaselineWritten == !areMissing)
    }

    @Test(
        "If the replica is lost and the baseline of an edited store is damaged, an error says so, and no edit is lost",
        arguments: [TakenSide.both, .local]
    )
    func editedStore(side: TakenSide) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, z) = try await twoWriters(fixture)
        _ = try await a.synchronize().value
        try damage(.checkpoint, ofNewestBaselineOf: z, fixture)
        try await fixture.expectEditIsKept(of: z, besides: a, taking: side)
    }

    @Test("A replica isn't built again from a baseline whose content another device has damaged, and stays as it is")
    func damagedContent() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, z) = try await twoWriters(fixture)
        _ = try await a.synchronize().value
        let replica = try DatabaseQueue(path: #require(z.state.replicas().first).path)
        try await replica.write {
            try $0.execute(
                sql: """
                    INSERT INTO conflicts (number, client, sequence, stamp, rule, tbl, name, lost, kept)
                    VALUES (-1, '', 1, 1, '', 1, x'', x'', x'')
                    """
            )
        }
        try replica.close()
        try await fixture.writeLargeNotes(1, by: z)
        #expect(try await z.vacuum().value.isBaselineWritten)
        var request = SynchronizationRequest(url: a.store)
        request.rebuildsReplica = true
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize(request).value }
        #expect(error?.code == .corrupt && error?.message.contains("storesync vacuum") == true)
        _ = try await a.synchronize().value
        #expect(try a.titles() == z.titles())
    }

    @Test("After a day, a device takes edits from an older baseline if the newest one is damaged")
    func waiting() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await fixture.devicesWithNotes("a", "b", "c").triple
        try await fixture.writeLargeNotes(2, by: a)
        _ = try await b.synchronize().value
        for title in ["b 1", "b 2"] {
            try b.execute("INSERT INTO note (title) VALUES ('\(title)')")
            #expect(try await b.vacuum().value.isBaselineWritten)
        }
        try damage(.checkpoint, ofNewestBaselineOf: b, fixture)
        for path in try fixture.segments(of: a) { try fixture.put(nil, at: path) }
        #expect(try await !c.synchronize().value.waitingFor.isEmpty)
        let late = try fixture.device("c", clockError: 25 * Self.hour)
        let result = try await late.synchronize().value
        #expect(result.waitingFor.isEmpty)
        #expect(result.warnings.contains { $0.contains(Self.advice) }, "\(result.warnings)")
        #expect(try c.titles() == b.titles())
    }
}
