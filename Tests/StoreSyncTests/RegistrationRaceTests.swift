import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Devices that register first at the same time", .timeLimit(.minutes(60)))
struct RegistrationRaceTests {
    private static let deviceCount = 8

    /// The kinds of storage of a race, by their capabilities.
    enum Place: String, Sendable, CaseIterable, CustomTestStringConvertible {
        case folder, memory, memoryWithoutDirectoryMoves

        var testDescription: String { rawValue }

        func backend(_ fixture: Fixture, _ simulation: Simulation) -> any RemoteBackend {
            switch self {
            case .folder: LocalFolderBackend(root: fixture.share, executor: simulation.executor)
            case .memory: InMemoryBackend()
            case .memoryWithoutDirectoryMoves:
                InMemoryBackend(capabilities: .all.subtracting(.exclusiveDirectoryMove))
            }
        }
    }

    @Test("A registration is refused where two devices could overwrite each other, and the error says what to try")
    func unsafeStorage() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend(capabilities: .rangedRead)
        let device = try fixture.device("device", backend: backend)
        let error = await #expect(throws: StoreSyncError.self) { try await device.register().value }
        #expect(error?.code == .unsupportedStorage && error?.message.contains("try again") == true)
        #expect(try await backend.list(.root)?.isEmpty == true)
    }

    @Test(
        "F2, R3, R16–R18: Devices that register first at the same time create one application and one document",
        arguments: Place.allCases
    )
    func registeringFirst(_ place: Place) async throws {
        for seed in TestDepth.seeds(quick: 4, deep: 5_000) {
            try await Simulation.run(seed: seed) { simulation in
                let fixture = try Fixture()
                let backend = place.backend(fixture, simulation)
                let devices = try Self.devices(in: fixture, backend, simulation)
                let handles = devices.map { $0.register() }
                var registrations: [ApplicationRegistration] = []
                for handle in handles { registrations.append(try await handle.value) }
                try await Self.checkApplication(registrations, devices, backend, seed)
                // All devices remember the same application, so none has to be set up again.
                for device in devices {
                    #expect(try await device.register(mayCreate: false).value.didCreateApplication == false)
                }
                let documentHandles = devices.map { $0.registerDocument() }
                var documents: [DocumentRegistration] = []
                for handle in documentHandles { documents.append(try await handle.value) }
                try await Self.checkDocument(documents, fixture, backend, seed)
            }
        }
    }

    private static let withoutDirectoryMoves = RemoteCapabilities.all.subtracting(.exclusiveDirectoryMove)

    /// Creates an encrypted application of which there is only the registration, since its device has died.
    private static func createRegistration(_ fixture: Fixture) async throws {
        let passwordTest = "\(fixture.hierarchy.passwordTest)"
        let dying = try fixture.device("dying", capabilities: withoutDirectoryMoves) { step in
            guard step == "before write of \(passwordTest)" else { return }
            throw RemoteError(.unavailable, "The device is dead.")
        }
        #expect(await code { try await dying.register().value } == .remoteUnavailable)
        #expect(try fixture.files().keys.contains("\(fixture.hierarchy.registration)"))
        #expect(try !fixture.files().keys.contains(passwordTest))
    }

    @Test(
        "A device that completes a registration joins another device that has completed it meanwhile",
        arguments: [
            ("list of org.example.notes/Documents", false),
            ("write of org.example.notes/Encryption/test.ticdsync", true),
        ]
    )
    func completedMeanwhile(request: String, asksForNewPassword: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        try await Self.createRegistration(fixture)
        let winner = try fixture.device("winner", capabilities: Self.withoutDirectoryMoves) { _ in }
        let connection = DyingBackend(winner.backend)
        let late = try fixture.device("late", backend: connection)
        await connection.meet(at: { $0 == request }) {
            do {
                #expect(try await winner.register().value.didCreateApplication)
            } catch {
                Issue.record("\(error)")
            }
        }
        let (password, isAsked) = (try #require(fixture.password), Locked(false))
        let registration = late.registration { question in
            if question == .newApplication { isAsked.withLock { $0 = true } }
            return .encrypted(password)
        }
        #expect(try await late.supervisor.add(registration).value.didCreateApplication == false)
        #expect(isAsked.withLock(\.self) == asksForNewPassword)
        try await late.push(adding: "one")
        _ = try await winner.pull().value
        #expect(try winner.notes() == ["one"])
    }

    @Test("An encrypted application of which there is only the registration isn't completed without encryption")
    func completedWithoutEncryption() async throws {
        let fixture = try Fixture(password: "correct horse")
        try await Self.createRegistration(fixture)
        let files = try fixture.files()
        let device = try fixture.device("device", capabilities: Self.withoutDirectoryMoves) { _ in }
        let registration = device.registration { _ in .unencrypted }
        let error = await #expect(throws: StoreSyncError.self) { try await device.supervisor.add(registration).value }
        #expect(error?.code == .encryptionMismatch, "\(error as Any)")
        #expect(try fixture.files() == files)
    }

    @Test(
        "F2: Devices that push first at the same time create one application and document, and later ones are told",
        arguments: Place.allCases
    )
    func pushingFirst(_ place: Place) async throws {
        for seed in TestDepth.seeds(quick: 2, deep: 1_000) {
            try await Simulation.run(seed: seed) { simulation in
                let fixture = try Fixture()
                let backend = place.backend(fixture, simulation)
                let devices = try Self.devices(in: fixture, backend, simulation)
                for device in devices { try device.write(device.name) }
                let handles = devices.map { $0.push() }
                var uploads: [(name: String, upload: WholeStoreUpload)] = []
                for (device, handle) in zip(devices, handles) {
                    do {
                        uploads.append((device.name, try await handle.value))
                    } catch let error as StoreSyncError where error.code == .unrelatedStore {
                        // Another device's store existed already.
                    }
                }
                #expect(Set(uploads.map(\.upload.client)).count == uploads.count && !uploads.isEmpty, "seed \(seed)")
                // No store is lost, and none of several is taken for the newest.
                let reader = try fixture.device("reader", backend: backend, simulation: simulation)
                if uploads.count > 1 {
                    #expect(await code { try await reader.pull().value } == .diverged, "seed \(seed)")
                }
                for (name, upload) in uploads {
                    _ = try await reader.pull(from: upload.client, overwrite: true).value
                    #expect(try reader.notes() == [name], "seed \(seed)")
                }
            }
        }
    }

    @Test(
        "F2: Devices with different passwords create one application and key, and losers need the winner's password",
        arguments: Place.allCases
    )
    func passwords(_ place: Place) async throws {
        for seed in TestDepth.seeds(quick: 2, deep: 100) {
            try await Simulation.run(seed: seed) { simulation in
                let fixture = try Fixture()
                let backend = place.backend(fixture, simulation)
                let devices = try Self.devices(in: fixture, backend, simulation)
                let passwords = try devices.map { try Password.cheap("password of \($0.name)") }
                let handles = zip(devices, passwords).map { device, password in
                    // A device that is asked for another device's password tries all of them.
                    let rest = Locked(passwords[...])
                    return device.supervisor.add(
                        device.registration { question in
                            guard case .joiningEncrypted = question else { return .encrypted(password) }
                            return .encrypted(try #require(rest.withLock { $0.popFirst() }))
                        }
                    )
                }
                var registrations: [ApplicationRegistration] = []
                for handle in handles {
                    do {
                        registrations.append(try await handle.value)
                    } catch let error as StoreSyncError where error.code == .busy {
                        // The device read the winner's registration before the winner had written its keys.
                    }
                }
                #expect(registrations.filter(\.didCreateApplication).count == 1, "seed \(seed)")
                #expect(registrations.allSatisfy { $0.seal == registrations[0].seal && $0.isEncrypted }, "seed \(seed)")
                let hierarchy = fixture.hierarchy
                for registration in registrations {
                    let path = hierarchy.deviceInfo(registration.client)
                    let bytes = try #require(try await backend.smallFile(at: path), "seed \(seed)")
                    let role = ApplicationSeal.Role.deviceInfo(registration.client)
                    let info = try DeviceInfo(registration.seal.open(bytes, as: role, at: path), at: path)
                    #expect(info.description == registration.clientDescription, "seed \(seed)")
                }
                #expect(try await backend.list(.root)?.map(\.name) == [fixture.application.rawValue], "seed \(seed)")
            }
        }
    }

    @Test(
        "F1, R15: Of a device that wants encryption and a device that wants none, one is registered and one is refused"
    )
    func mixedDecisions() async throws {
        for place in Place.allCases {
            for seed in TestDepth.seeds(quick: 2, deep: 1_000) {
                try await Simulation.run(seed: seed) { simulation in
                    let fixture = try Fixture()
                    let backend = place.backend(fixture, simulation)
                    let (plain, sealed) = (
                        try fixture.device("plain", backend: backend, simulation: simulation),
                        try fixture.device("sealed", backend: backend, simulation: simulation)
                    )
                    let password = try Password.cheap("correct horse")
                    let handles = [
                        plain.supervisor.add(plain.registration { _ in .unencrypted }),
                        sealed.supervisor.add(sealed.registration { _ in .encrypted(password) }),
                    ]
                    var outcomes: [Result<ApplicationRegistration, any Error>] = []
                    for handle in handles { outcomes.append(await handle.result) }
                    let made = outcomes.compactMap { try? $0.get() }
                    #expect(made.count == 1, "\(place) seed \(seed)")
                    let hierarchy = fixture.hierarchy
                    let bytes = try #require(try await backend.smallFile(at: hierarchy.registration))
                    let info = try RegistrationInfo(bytes, at: hierarchy.registration)
                    #expect(info.isEncrypted == made.first?.isEncrypted, "\(place) seed \(seed)")
                    // Only the winner is a client.
                    #expect(try await backend.list(hierarchy.clientDevices)?.count == 1, "\(place) seed \(seed)")
                }
            }
        }
    }

    private static func devices(
        in fixture: Fixture,
        _ backend: any RemoteBackend,
        _ simulation: Simulation
    ) throws -> [Device] {
        try (1...deviceCount).map { try fixture.device("device-\($0)", backend: backend, simulation: simulation) }
    }

    private static func checkApplication(
        _ registrations: [ApplicationRegistration],
        _ devices: [Device],
        _ backend: any RemoteBackend,
        _ seed: UInt64
    ) async throws {
        let hierarchy = ApplicationHierarchy(devices[0].application)
        #expect(registrations.filter(\.didCreateApplication).count == 1, "seed \(seed)")
        #expect(Set(registrations.map(\.client)).count == devices.count, "seed \(seed)")
        // The application, and nothing beside it.
        #expect(try await backend.list(.root)?.map(\.name) == [devices[0].application.rawValue], "seed \(seed)")
        let bytes = try #require(try await backend.smallFile(at: hierarchy.registration))
        let info = try RegistrationInfo(bytes, at: hierarchy.registration)
        for device in devices {
            #expect(try device.state.pin(for: device.key)?.epoch == info.epoch, "seed \(seed)")
            #expect(try device.state.stagings(for: device.key).isEmpty, "seed \(seed)")
        }
        for registration in registrations {
            let path = hierarchy.deviceInfo(registration.client)
            let bytes = try #require(try await backend.smallFile(at: path), "seed \(seed)")
            let device = try DeviceInfo(bytes, at: path)
            #expect(device.client == registration.client.rawValue, "seed \(seed)")
            #expect(device.description == registration.clientDescription, "seed \(seed)")
        }
        #expect(try await backend.list(hierarchy.clientDevices)?.count == devices.count, "seed \(seed)")
        for directory in hierarchy.directories {
            #expect(try await backend.status(of: directory)?.kind == .directory, "seed \(seed)")
        }
        #expect(try await backend.status(of: hierarchy.readMe)?.kind == .file, "seed \(seed)")
    }

    private static func checkDocument(
        _ registrations: [DocumentRegistration],
        _ fixture: Fixture,
        _ backend: any RemoteBackend,
        _ seed: UInt64
    ) async throws {
        let hierarchy = fixture.hierarchy.document(fixture.document)
        #expect(registrations.filter(\.didCreateDocument).count == 1, "seed \(seed)")
        #expect(Set(registrations.map(\.integrityKey)).count == 1, "seed \(seed)")
        #expect(!registrations.contains { $0.mustReplaceLocalStore }, "seed \(seed)")
        let keys = try await backend.list(hierarchy.integrityKeys)?.map(\.name)
        #expect(keys == registrations.first.map { [$0.integrityKey] }, "seed \(seed)")
        let bytes = try #require(try await backend.smallFile(at: hierarchy.documentInfo))
        let info = try DocumentInfo(bytes, at: hierarchy.documentInfo)
        #expect(info.integrityKey == registrations.first?.integrityKey, "seed \(seed)")
        let creator = registrations.first { $0.didCreateDocument }
        #expect(info.originalDevice == creator?.application.client.rawValue, "seed \(seed)")
        for directory in hierarchy.directories {
            #expect(try await backend.status(of: directory)?.kind == .directory, "seed \(seed)")
        }
        for registration in registrations {
            let client = registration.application.client
            for directory in [hierarchy.syncChanges(client), hierarchy.syncCommands(client)] {
                #expect(try await backend.status(of: directory)?.kind == .directory, "seed \(seed)")
            }
        }
    }
}
