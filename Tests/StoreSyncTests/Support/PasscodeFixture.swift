import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

extension Device {
    /// A setup of this device, whose hashes are the cheapest.
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

    /// Sets this device up, whatever there is.
    @discardableResult
    func setUp(_ passcode: String, _ action: SyncStartMessage.Action) async throws -> PasscodeSetup {
        let setup = passcodeSetup()
        try await setup.begin()
        try await setup.start(SyncStartMessage(passcode: passcode, action: action))
        return setup
    }

    var key: ApplicationKey { ApplicationKey(remote: backend.identity, application: application.rawValue) }

    /// The epoch of the application that stands on the remote.
    func epoch() async throws -> String? {
        let path = ApplicationHierarchy(application).registration
        return try await backend.smallFile(at: path).map { try RegistrationInfo($0, at: path).epoch }
    }
}

/// The storage of a test, by what it can do.
enum PasscodePlace: String, Sendable, CaseIterable, CustomTestStringConvertible {
    case folder, memory, memoryWithoutDirectoryMoves

    var testDescription: String { rawValue }

    func backend(_ world: World, _ executor: (any TaskExecutor)? = nil) -> any RemoteBackend {
        switch self {
        case .folder: LocalFolderBackend(root: world.share, executor: executor)
        case .memory: InMemoryBackend()
        case .memoryWithoutDirectoryMoves: InMemoryBackend(capabilities: .all.subtracting(.exclusiveDirectoryMove))
        }
    }
}

/// Everything below a path: files with their bytes, directories without.
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

/// Two devices, "a" and "b", that are set up and have pushed, as they are put back for every run of a test.
final class PasscodeScene: Sendable {
    static let passcode = "correct horse"
    static let newPasscode = "battery staple"

    let world: World
    let place: PasscodePlace
    let epoch: String
    private let remote: [String: [UInt8]?]
    private var image: URL { world.folder.appending(path: "image", directoryHint: .isDirectory) }

    init(_ place: PasscodePlace) async throws {
        world = try World()
        self.place = place
        let backend = place.backend(world)
        let (a, b) = (try world.device("a", backend: backend), try world.device("b", backend: backend))
        try await a.setUp(Self.passcode, .new)
        try await b.setUp(Self.passcode, .existing)
        try a.write("one")
        _ = try await a.push().value
        epoch = try #require(try await a.epoch())
        remote = try await contents(of: backend)
        let image = world.folder.appending(path: "image", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: image, withIntermediateDirectories: false)
        for name in ["a", "b"] {
            try FileManager.default.copyItem(at: world.folder.appending(path: name), to: image.appending(path: name))
        }
    }

    /// Puts everything back as it was; no device of before may be used any more.
    func restore(_ executor: (any TaskExecutor)? = nil) async throws -> any RemoteBackend {
        let files = FileManager.default
        for name in try files.contentsOfDirectory(atPath: world.folder.path) where name != "image" {
            try files.removeItem(at: world.folder.appending(path: name))
        }
        for directory in [world.share, world.temporary] {
            try files.createDirectory(at: directory, withIntermediateDirectories: false)
        }
        for name in ["a", "b"] {
            try files.copyItem(at: image.appending(path: name), to: world.folder.appending(path: name))
        }
        let backend = place.backend(world, executor)
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

    /// What is on the remote is one whole application, the former or a new one, or says that it isn't: never two keys, never
    /// a part that is taken for unencrypted.
    func expectSound(
        _ backend: any RemoteBackend,
        _ comment: String,
        in simulation: Simulation? = nil
    ) async throws {
        let hierarchy = ApplicationHierarchy(world.application)
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
        // Only where the registration is exchanged in its place, the keys may be behind it.
        #expect(isWhole == (try KeyFile(keyFile).binds(registration: bytes)), "\(comment)")
        #expect(isWhole || place == .memoryWithoutDirectoryMoves, "\(comment)")
        try await expectRefusal(backend, before, comment, simulation)
    }

    /// A device that wants no encryption doesn't get in, and writes nothing.
    private func expectRefusal(
        _ backend: any RemoteBackend,
        _ before: [String: [UInt8]?],
        _ comment: String,
        _ simulation: Simulation?
    ) async throws {
        let plain = try world.device("plain-\(UUID().uuidString)", backend: backend, simulation: simulation)
        let refusal = await code { try await plain.register().value }
        let expected: Set<StoreSyncError.Code?> = [.encryptionMismatch, .applicationIncomplete, .tampered]
        #expect(expected.contains(refusal), "\(comment): \(String(describing: refusal))")
        #expect(try await contents(of: backend) == before, "\(comment)")
    }

    /// All is well: one application, of which nothing is wrong and nothing lies beside it.
    func expectDone(_ device: Device, _ backend: any RemoteBackend, _ comment: String) async throws {
        let names = try await backend.list(.root)?.map(\.name)
            // What another device put together and couldn't remove is that device's.
            .filter { !$0.hasPrefix(".registering-") }
        #expect(names == [world.application.rawValue], "\(comment): \(names ?? [])")
        let report = try await device.verify().value
        #expect(report.problems.isEmpty, "\(comment): \(report)")
        #expect(report.warnings.allSatisfy { $0.contains(".registering-") }, "\(comment): \(report)")
    }
}
