import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The hooks of a registration, as TICoreDataSync describes them", .timeLimit(.minutes(60)))
struct RegistrationHookTests {
    @Test(
        "R1, R3, R5, R6, R8–R10, R19–R22, R24–R26, R28, R29: A backend's own hooks are called in TICoreDataSync's order",
        arguments: [false, true]
    )
    func hooksInOrder(isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let backend = RecordingBackend(capabilities: .all.subtracting(.exclusiveDirectoryMove))
        let first = try fixture.device("first", backend: backend)
        _ = try await first.register().value
        let calls = await backend.calls
        let index = { (hook: RecordingBackend.Hook) in calls.firstIndex(of: hook) ?? .max }
        let looks: [RecordingBackend.Hook] = [.missingParts, .fetchRegistration, .saltFileExists, .fetchPasswordTest]
        let keys: [RecordingBackend.Hook] = isSealed ? [.createPasswordTest, .saveSalt] : []
        let creations: [RecordingBackend.Hook] = [.createApplicationDirectoryStructure, .saveReadMe] + keys
        #expect(Set(calls) == Set(looks + creations + [.createRegistration, .saveDeviceInfo]), "\(calls)")
        for look in looks { #expect(index(look) < index(.createRegistration), "\(calls)") }
        for creation in creations {
            #expect(index(.createRegistration) < index(creation), "\(calls)")
            #expect(index(creation) < index(.saveDeviceInfo), "\(calls)")
        }

        await backend.forget()
        _ = try await fixture.device("second", backend: backend).register().value
        let second = await backend.calls
        #expect(second.suffix(2) == [.createClientDeviceDirectory, .saveDeviceInfo], "\(second)")
        #expect(!second.contains(.createRegistration) && !second.contains(.saveReadMe), "\(second)")
    }

    @Test("R16, R27: Registering a client that is registered already takes one check, and writes nothing")
    func knownClient() async throws {
        let fixture = try Fixture()
        let backend = RecordingBackend()
        let device = try fixture.device("device", backend: backend)
        let first = try await device.register().value
        await backend.forget()
        let again = try await device.register().value
        #expect(again.client == first.client)
        #expect(!again.didCreateApplication)
        #expect(await backend.calls.contains(.fetchDeviceInfo))
        #expect(await backend.changes == 0)
    }

    /// Where and how an application is created.
    struct Creation: Sendable {
        let movesDirectories: Bool
        let isSealed: Bool

        static let all = [true, false].flatMap { moves in
            [true, false].map { Creation(movesDirectories: moves, isSealed: $0) }
        }

        /// Whether the first or the second device calls the hook.
        func calls(_ hook: RecordingBackend.Hook) -> Bool {
            switch hook {
            case .publishApplication: movesDirectories
            case .createPasswordTest, .saveSalt: isSealed
            // Called only for keys without a registration.
            case .fetchSalt: false
            default: true
            }
        }
    }

    @Test(
        "R20–R22, R24–R26, R28–R30: A hook that fails ends the registration with its error; the next attempt completes",
        arguments: RecordingBackend.Hook.allCases,
        Creation.all
    )
    func hookFails(_ hook: RecordingBackend.Hook, _ creation: Creation) async throws {
        guard creation.calls(hook) else { return }
        let fixture = try Fixture(password: creation.isSealed ? "correct horse" : nil)
        let backend = RecordingBackend(
            capabilities: creation.movesDirectories ? .all : .all.subtracting(.exclusiveDirectoryMove)
        )
        let joins = [.createClientDeviceDirectory, .fetchDeviceInfo].contains(hook)
        if joins { _ = try await fixture.device("before", backend: backend).register().value }
        let device = try fixture.device("device", backend: backend)
        if hook == .fetchDeviceInfo { _ = try await device.register().value }
        await backend.failOnce(hook)
        #expect(await code { try await device.register().value } == .remoteUnavailable)
        let registration = try await device.register().value
        #expect(try await registration.savedDeviceInfo(on: device).client == registration.client.rawValue)
        #expect(try await backend.list(.root)?.map(\.name) == [fixture.application.rawValue])
        let report = try await device.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
        // A client whose registration was interrupted isn't listed twice.
        #expect(
            try await device.status().value.clients.count == (hook == .createClientDeviceDirectory || joins ? 2 : 1)
        )
    }

    /// A storage that loses the directory of a text for people.
    private actor LosingBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend = InMemoryBackend(capabilities: .all)

        func write(
            _ content: RemoteContent,
            to path: RemotePath,
            when condition: WriteCondition
        ) async throws -> RemoteItem {
            guard path.lastComponent != "ReadMe.txt" else { throw RemoteError.notFound(path) }
            return try await base.write(content, to: path, when: condition)
        }
    }

    @Test("An error while an application is prepared names the final path and the remote, not the temporary directory")
    func stagingError() async throws {
        let fixture = try Fixture()
        let backend = LosingBackend()
        let device = try fixture.device("device", backend: backend)
        let error = await #expect(throws: StoreSyncError.self) { try await device.register().value }
        let place = "“\(fixture.application)/ReadMe.txt” on the remote \(backend.identity) doesn't exist"
        #expect(error?.message.contains(place) == true, "\(error as Any)")
    }
}

extension ApplicationRegistration {
    /// Reads what is saved of the client.
    func savedDeviceInfo(on device: Device) async throws -> DeviceInfo {
        let path = hierarchy.deviceInfo(client)
        let bytes = try #require(try await device.backend.smallFile(at: path))
        return try DeviceInfo(seal.open(bytes, as: .deviceInfo(client), at: path), at: path)
    }
}
