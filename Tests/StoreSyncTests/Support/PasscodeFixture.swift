import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

extension Device {
    /// Creates a setup of this device.
    func passcodeSetup() -> PasscodeSetup {
        PasscodeSetup(
            ApplicationRegistrationRequest(
                application: application,
                clientDescription: name,
                passwordParameters: .interactive
            ),
            backend: backend,
            state: state,
            supervisor: supervisor
        )
    }

    /// Sets this device up, whatever the remote holds.
    @discardableResult
    func setUp(_ passcode: String, _ action: SyncStartMessage.Action) async throws -> PasscodeSetup {
        let setup = passcodeSetup()
        try await setup.begin()
        try await setup.start(passcode, action)
        return setup
    }

    /// Returns the epoch of the application on the remote.
    func epoch() async throws -> String? {
        let path = ApplicationHierarchy(application).registration
        return try await backend.smallFile(at: path).map { try RegistrationInfo($0, at: path).epoch }
    }
}

extension SyncStartMessage {
    /// Returns a message whose passcode is hashed at next to no cost.
    static func cheap(_ passcode: String, action: Action) throws -> SyncStartMessage {
        SyncStartMessage(passcode: try .cheap(passcode), action: action)
    }
}

extension PasscodeSetup {
    /// Starts an attempt with a passcode whose hash costs next to nothing.
    func start(_ passcode: String, _ action: SyncStartMessage.Action) async throws {
        try await start(SyncStartMessage.cheap(passcode, action: action))
    }
}

/// The kinds of storage that a test runs on, by their capabilities.
enum PasscodePlace: String, Sendable, CaseIterable, CustomTestStringConvertible {
    case folder, memory, memoryWithoutDirectoryMoves

    var testDescription: String { rawValue }

    func backend(_ fixture: Fixture, _ executor: (any TaskExecutor)? = nil) -> any RemoteBackend {
        switch self {
        case .folder: LocalFolderBackend(root: fixture.share, executor: executor)
        case .memory: InMemoryBackend()
        case .memoryWithoutDirectoryMoves: InMemoryBackend(capabilities: .all.subtracting(.exclusiveDirectoryMove))
        }
    }
}

/// Returns everything below a path: files with their bytes, directories with `nil`.
func contents(of backend: any RemoteBackend, at root: RemotePath = .root) async throws -> [String: [UInt8]?] {
    var found: [String: [UInt8]?] = [:]
    var pending = [root]
    while let directory = pending.popLast() {
        for item in try await backend.list(directory) ?? [] {
            let path = try directory.appending(item.name)
            if item.kind == .directory {
                pending.append(path)
                found["\(path)"] = .some(nil)
            } else {
                found["\(path)"] = try await backend.smallFile(at: path)
            }
        }
    }
    return found
}

/// Two devices, "a" and "b", that are set up, with a store that "a" has pushed.
///
/// Every run of a test starts with this state restored.
final class PasscodeScene: Sendable {
    static let passcode = "correct horse"
    static let newPasscode = "battery staple"

    let fixture: Fixture
    let place: PasscodePlace
    let epoch: String
    private let remote: [String: [UInt8]?]
    private let image: DeviceImage

    init(_ place: PasscodePlace) async throws {
        fixture = try Fixture()
        self.place = place
        let backend = place.backend(fixture)
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        try await a.setUp(Self.passcode, .new)
        try await b.setUp(Self.passcode, .existing)
        try await a.push(adding: "one")
        epoch = try #require(try await a.epoch())
        remote = try await contents(of: backend)
        image = try DeviceImage(of: ["a", "b"], in: fixture)
    }

    /// Restores the devices and the remote.
    ///
    /// Devices that were created before must not be used any more.
    func restore(_ executor: (any TaskExecutor)? = nil) async throws -> any RemoteBackend {
        try image.restore()
        let backend = place.backend(fixture, executor)
        for (name, bytes) in remote {
            let path = try name.split(separator: "/").reduce(RemotePath.root) { try $0.appending(String($1)) }
            if let bytes {
                try await backend.write(bytes, to: path, when: .always)
            } else {
                try await backend.createDirectory(at: path)
            }
        }
        return backend
    }

    /// Expects one complete application on the remote, or an application that is recognized as incomplete.
    ///
    /// It's the former application or a new one. There are never two keys, and no part of it is taken for unencrypted.
    func expectSound(
        _ backend: any RemoteBackend,
        _ comment: String,
        in simulation: Simulation? = nil
    ) async throws {
        let hierarchy = fixture.hierarchy
        let before = try await contents(of: backend)
        guard let bytes = try await backend.smallFile(at: hierarchy.registration) else {
            #expect(try await backend.status(of: hierarchy.root) == nil, "\(comment): without a registration")
            let aside = try #require(try await backend.list(.root)?.compactMap { AsideName($0.name) }.first)
            #expect(aside.epoch?.uuidString == epoch, "\(comment)")
            let old = try hierarchy.staged(as: aside.name)
            #expect(try await backend.smallFile(at: old.registration) == remote["\(hierarchy.registration)"])
            return try await expectRefusal(backend, before, comment, simulation)
        }
        let info = try RegistrationInfo(bytes, at: hierarchy.registration)
        #expect(info.isEncrypted, "\(comment)")
        let keyFile = try #require(try await backend.smallFile(at: hierarchy.passwordTest), "\(comment)")
        let isWhole = try KeyFile(keyFile).epoch.uuidString == info.epoch
        // Only without exclusive directory moves, the registration is replaced at its path, so the keys may be older.
        #expect(isWhole == (try KeyFile(keyFile).binds(registration: bytes)), "\(comment)")
        #expect(isWhole || place == .memoryWithoutDirectoryMoves, "\(comment)")
        try await expectRefusal(backend, before, comment, simulation)
    }

    /// Expects that a device that wants no encryption is refused, and writes nothing.
    private func expectRefusal(
        _ backend: any RemoteBackend,
        _ before: [String: [UInt8]?],
        _ comment: String,
        _ simulation: Simulation?
    ) async throws {
        let plain = try fixture.device("plain-\(UUID().uuidString)", backend: backend, simulation: simulation)
        let refusal = await code { try await plain.register().value }
        let expected: Set<StoreSyncError.Code?> = [.encryptionMismatch, .applicationIncomplete, .tampered]
        #expect(expected.contains(refusal), "\(comment): \(String(describing: refusal))")
        #expect(try await contents(of: backend) == before, "\(comment)")
    }

    /// Expects one sound application on the remote, and nothing beside it.
    func expectDone(_ device: Device, _ backend: any RemoteBackend, _ comment: String) async throws {
        let names = try await backend.list(.root)?.map(\.name)
            // A staging directory that another device couldn't remove belongs to that device.
            .filter { !$0.hasPrefix(".registering-") }
        #expect(names == [fixture.application.rawValue], "\(comment): \(names ?? [])")
        let report = try await device.verify().value
        #expect(report.problems.isEmpty, "\(comment): \(report)")
        #expect(report.warnings.allSatisfy { $0.contains(".registering-") }, "\(comment): \(report)")
    }
}
