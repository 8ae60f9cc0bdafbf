import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Devices that lack edits of a client that was removed since", .timeLimit(.minutes(60)))
struct RestoredAfterRemovalTests {
    /// Whether a head of a client is on the remote.
    private func hasHead(_ client: RemoteIdentifier, _ fixture: Fixture) throws -> Bool {
        try fixture.files().keys.contains { $0.contains("RecentSyncs/\(client)-") }
    }

    /// Two devices of three, after the client of the device “b” was removed and none of its files is left; and the device
    /// “backup”, which is a device as it was before the removed client's last edit.
    private func restoredDevice(
        _ name: String,
        fromDocument: Bool = true,
        _ fixture: Fixture
    ) async throws -> (others: [Device], restored: Device) {
        let (a, b, c) = try await fixture.devicesWithNotes("a", "b", "c").triple
        try b.execute("INSERT INTO note (title) VALUES ('second')")
        for device in [b, a, c] { _ = try await device.synchronize().value }
        try FileManager.default.copyItem(
            at: fixture.folder.appending(path: name),
            to: fixture.folder.appending(path: "backup")
        )
        try b.execute("INSERT INTO note (title) VALUES ('third')")
        for device in [b, a, c, b] { _ = try await device.synchronize().value }
        let client = try RemoteIdentifier(b.client())
        _ = try await a.remove(client, from: fromDocument ? fixture.document : nil).value
        for device in [a, c, a, c] { _ = try await device.vacuum().value }
        #expect(try !hasHead(client, fixture))
        return ([a, c], try fixture.device("backup"))
    }

    /// Synchronizes in turn; the restored device may have to continue as another client.
    private func synchronize(_ devices: [Device], rebuilding: Bool = false) async throws {
        for device in devices {
            do {
                _ = try await device.synchronize { $0.rebuildsReplica = rebuilding }.value
            } catch let error as StoreSyncError {
                #expect(device.name == "backup" && error.code == .identityTwice, "\(device.name): \(error)")
            }
        }
    }

    private func voidEdits(_ device: Device) async throws -> [ConflictLog.Entry] {
        try await ConflictLog(ofStoreAt: device.store, state: device.state).entries().filter {
            $0.conflict.rule == .setVoid
        }
    }

    @Test("A restored device keeps the removed client's edits that it had, and gets the others from a baseline")
    func restoredDeviceWithoutEdits() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (others, restored) = try await restoredDevice("c", fixture)
        let warnings = try await restored.synchronize { $0.isPreview = true }.value.warnings
        #expect(warnings.contains { $0.contains("will start over with a store") }, "\(warnings)")
        for _ in 0..<2 {
            let result = try await restored.synchronize().value
            #expect(result.waitingFor.isEmpty, "\(result)")
        }
        _ = try await others[0].synchronize().value
        for device in [restored, others[0]] { #expect(try device.titles() == ["first", "second", "third"]) }
        #expect(try await voidEdits(restored).isEmpty)
        #expect(try await others[0].verify().value.problems.isEmpty)
    }

    @Test("What a restored device had not published is there once on all devices, besides the removed client's edits")
    func restoredDeviceWithEdits() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (others, restored) = try await restoredDevice("c", fixture)
        try restored.execute("INSERT INTO note (title) VALUES ('unpublished')")
        try await synchronize([restored, restored, restored, others[0], restored, others[0]])
        for device in [restored, others[0]] {
            #expect(try device.titles() == ["first", "second", "third", "unpublished"], "\(device.name)")
        }
        #expect(try await voidEdits(restored).isEmpty)
        #expect(try await others[0].verify().value.problems.isEmpty)
    }

    @Test(
        "A removed client that is restored from a backup, and builds its replica again, doubles no row",
        arguments: [true, false],
        [true, false]
    )
    func restoredRemovedClient(fromDocument: Bool, edits: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (others, restored) = try await restoredDevice("b", fromDocument: fromDocument, fixture)
        if edits { try restored.execute("INSERT INTO note (title) VALUES ('unpublished')") }
        if !fromDocument { _ = try await restored.supervisor.add(restored.registration(registersAgain: true)).value }
        try await synchronize([restored, restored])
        _ = try await others[0].vacuum().value
        try await synchronize([restored], rebuilding: true)
        try await synchronize([restored, restored] + others + [restored] + others)
        for device in [restored] + others {
            let expected = ["first", "second", "third"] + (edits ? ["unpublished"] : [])
            #expect(try device.titles() == expected, "\(device.name)")
        }
    }

    /// What the storage doesn't show of a removed client's edits.
    enum Hidden: CaseIterable {
        case nothing, head, headAndBaseline
    }

    @Test("A device that was offline gets the edits of a client that was removed meanwhile", arguments: Hidden.allCases)
    func offline(hidden: Hidden) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = try await fixture.devicesWithNotes("a", "b", "c").triple
        try b.execute("INSERT INTO note (title) VALUES ('second')")
        for device in [b, a] { _ = try await device.synchronize().value }
        let client = try RemoteIdentifier(b.client())
        _ = try await a.remove(client, from: fixture.document).value
        let former = try fixture.files()
        _ = try await a.vacuum().value
        #expect(try hasHead(client, fixture), "it is kept for the device that is offline")
        let hiddenFiles = try fixture.files().filter { path, _ in
            hidden != .nothing && path.contains("RecentSyncs/\(client)-")
                || hidden == .headAndBaseline && path.contains("WholeStore/") && former[path] == nil
        }
        for path in hiddenFiles.keys { try fixture.put(nil, at: path) }
        if hidden == .headAndBaseline {
            let error = await #expect(throws: StoreSyncError.self) { try await c.synchronize().value }
            #expect(error?.code == .remoteUnavailable, "\(error as Any)")
            #expect(error?.message.contains("Edits of \(client) were removed from the log") == true, "\(error as Any)")
        } else {
            _ = try await c.synchronize().value
            #expect(try c.titles() == ["first", "second"])
        }
        for (path, bytes) in hiddenFiles where path.contains("RecentSyncs/") { try fixture.put(bytes, at: path) }
        for device in [c, a] { _ = try await device.synchronize().value }
        for device in [c, a] { #expect(try device.titles() == ["first", "second"]) }
    }
}
