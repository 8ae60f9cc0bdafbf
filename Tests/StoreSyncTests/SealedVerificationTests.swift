import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Verifying sealed applications", .timeLimit(.minutes(60)))
struct SealedVerificationTests {
    /// An application with a pushed store, a device that knows it, and a device that has only the password.
    private struct Scene {
        let fixture: Fixture
        let known: Device
        let stranger: Device

        init() async throws {
            fixture = try Fixture(password: "correct horse")
            (known, stranger) = (try fixture.device("known"), try fixture.device("stranger"))
            try await known.push(adding: "one")
        }
    }

    @Test("A note on a removed client is opened, and is a problem if it wasn't sealed for its path")
    func notes() async throws {
        let scene = try await Scene()
        let document = scene.fixture.hierarchy.document(scene.fixture.document)
        let client = try RemoteIdentifier("stranger")
        let registration = try await scene.known.registerDocument().value
        let (seal, identity) = (registration.application.seal, registration.identity)
        let path = document.deletedClient(client)
        let sealed = seal.seal([1, 2, 3], as: .deletedClient(.init(on: client, by: nil), of: identity))
        try Data(sealed).write(to: scene.fixture.url(path))
        #expect(try await scene.known.verify().value.problems.isEmpty)
        var changed = sealed
        changed[sealed.count - 1] ^= 1
        let other = seal.seal(
            [1, 2, 3],
            as: .deletedClient(.init(on: try RemoteIdentifier("other"), by: nil), of: identity)
        )
        for bytes in [changed, other, Array(sealed.dropLast()), Array("<plist/>".utf8), []] {
            try Data(bytes).write(to: scene.fixture.url(path))
            let problems = try await scene.known.verify().value.problems
            #expect(problems.map(\.path) == ["\(path)"], "\(problems)")
        }
    }

    @Test("A repair while the share isn't mounted doesn't forget this device's staging directories")
    func unmounted() async throws {
        let scene = try await Scene()
        let (fixture, device) = (scene.fixture, scene.known)
        let name = ApplicationHierarchy.stagingName(UUID().uuidString)
        try device.state.recordStaging(name: name, for: device.key)
        try fixture.put(Data(), at: "\(name)/ReadMe.txt")
        let unmounted = fixture.folder.appending(path: "unmounted", directoryHint: .isDirectory)
        try FileManager.default.moveItem(at: fixture.share, to: unmounted)
        try FileManager.default.createDirectory(at: fixture.share, withIntermediateDirectories: false)
        #expect(await code { try await device.verify(repairs: true).value } == .applicationMissing)
        #expect(try device.state.stagings(for: device.key) == [name])
        try FileManager.default.removeItem(at: fixture.share)
        try FileManager.default.moveItem(at: unmounted, to: fixture.share)
        #expect(try await device.verify(repairs: true).value.repaired == [name])
        #expect(try device.state.stagings(for: device.key).isEmpty)
        #expect(try fixture.files().keys.allSatisfy { !$0.hasPrefix(name) })
    }

    @Test("A missing salt is a problem until a device registers that doesn't know the application")
    func salt() async throws {
        let scene = try await Scene()
        try FileManager.default.removeItem(at: scene.fixture.url(scene.fixture.hierarchy.salt))
        for device in [scene.stranger, scene.known] {
            let report = try await device.verify(repairs: true).value
            let problems = report.problems
            #expect(problems.map(\.path) == ["\(scene.fixture.hierarchy.salt)"] && problems.map(\.code) == ["missing"])
        }
        let error = await #expect(throws: StoreSyncError.self) { try await scene.known.status().value }
        #expect(error?.code == .encryptionDowngraded)
        #expect(error?.message.contains("\(scene.fixture.hierarchy.salt) is missing") == true)
        #expect(error?.message.contains("--state") == true)
        _ = try await scene.stranger.register().value
        for device in [scene.stranger, scene.known] { #expect(try await device.verify().value.problems.isEmpty) }
    }

    @Test(
        "Without its registration, an encrypted application isn't taken for one without encryption, but for incomplete"
    )
    func registration() async throws {
        let scene = try await Scene()
        let sound = try await scene.stranger.verify().value
        try FileManager.default.removeItem(at: scene.fixture.url(scene.fixture.hierarchy.registration))
        for missing in [nil, scene.fixture.hierarchy.salt] {
            if let missing { try FileManager.default.removeItem(at: scene.fixture.url(missing)) }
            #expect(await code { try await scene.stranger.status().value } == .applicationIncomplete)
            let report = try await scene.stranger.verify(repairs: true).value
            #expect(report.problems.map(\.path) == ["\(scene.fixture.hierarchy.registration)"], "\(report)")
            #expect(report.problems.map(\.code) == ["applicationIncomplete"])
            #expect(report.warnings.map { $0.prefix(12) } == ["Sealed files"] && report.repaired.isEmpty, "\(report)")
            #expect(report.files == sound.files - (missing == nil ? 1 : 2))
            // A device that knows the application refuses it, and checks the other files.
            let own = try await scene.known.verify(repairs: true).value
            let paths = [missing, scene.fixture.hierarchy.registration].compactMap { $0.map { "\($0)" } }
            #expect(own.problems.map(\.path) == paths && own.repaired.isEmpty, "\(own)")
            #expect(own.problems.last?.code == "encryptionDowngraded" && own.warnings.isEmpty, "\(own)")
            #expect(own.files == report.files)
            #expect(await code { try await scene.known.status().value } == .encryptionDowngraded)
        }
    }

    @Test("A damaged key file is a problem: devices with the keys check the rest, others only read it, with a warning")
    func keyFile() async throws {
        let scene = try await Scene()
        let url = scene.fixture.url(scene.fixture.hierarchy.passwordTest)
        let whole = try Data(contentsOf: url)
        let sound = try await scene.known.verify().value
        // Another file is damaged too.
        let info = scene.fixture.hierarchy.document(scene.fixture.document).documentInfo
        try Data("<plist".utf8).write(to: scene.fixture.url(info))
        for bytes in [Data(), whole.dropLast(), whole.dropFirst(), Data(whole.reversed()), Data(count: whole.count)] {
            try bytes.write(to: url)
            let report = try await scene.known.verify(repairs: true).value
            #expect(report.problems.map(\.path) == ["\(scene.fixture.hierarchy.passwordTest)", "\(info)"], "\(report)")
            #expect(report.files == sound.files && report.repaired.isEmpty, "\(report)")
            let other = try await scene.stranger.verify().value
            #expect(other.problems.map(\.path) == ["\(scene.fixture.hierarchy.passwordTest)"], "\(other)")
            #expect(other.files == sound.files && other.warnings.count == 1, "\(other)")
        }
        try whole.write(to: url)
        // A wrong password isn't reported as damage.
        var guessing = scene.stranger
        guessing.password = try Password.cheap("wrong")
        #expect(await code { try await guessing.verify().value } == .wrongPassword)
    }

    /// A storage that refuses to read one file.
    private actor RefusingBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend
        private let refused: String

        init(_ base: any RemoteBackend, refusing refused: String) { (self.base, self.refused) = (base, refused) }

        func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
            guard "\(path)" != refused else {
                throw RemoteError(.notAllowed, "The permissions of “\(path)” don't allow this.", path: path)
            }
            return try await base.read(path, range: range)
        }
    }

    @Test("A file that the storage refuses to read is a problem, and all others are checked")
    func unreadable() async throws {
        let scene = try await Scene()
        let sound = try await scene.known.verify().value
        // Without these two, nothing is known of the application.
        let needed = ["\(scene.fixture.hierarchy.registration)", "\(scene.fixture.hierarchy.passwordTest)"]
        let paths = try scene.fixture.files().keys.filter { !needed.contains($0) }
        #expect(paths.contains { $0.hasSuffix("store.ticdsync") || $0.contains("WholeStore") })
        for path in paths.sorted() {
            let backend = RefusingBackend(scene.known.backend, refusing: path)
            let report = try await scene.fixture.device("known", backend: backend).verify().value
            #expect(report.problems.map(\.path) == [path], "\(report)")
            #expect(report.problems.map(\.code) == ["unreadable"])
            #expect(report.files == sound.files, "\(report)")
        }
    }
}
