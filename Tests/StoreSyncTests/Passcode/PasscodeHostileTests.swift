import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Passcodes on untrusted storage", .timeLimit(.minutes(60)))
struct PasscodeHostileTests {
    /// The applications that an attacker can put in an application's place.
    enum Forgery: CaseIterable {
        /// An application with the attacker's own keys, without a proof.
        case withoutProof
        /// The same, with a proof made with the attacker's own keys.
        case ownProof
        /// The same, with a genuine proof for another successor.
        case borrowedProof
        /// The same, with a genuine proof for its own epoch, in which a byte is changed.
        case damagedProof
    }

    @Test(
        "B12, D19: A forged application is distinguished from the successor that a device created",
        arguments: Forgery.allCases
    )
    func forgedSuccessor(forgery: Forgery) async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        let setup = try await a.setUp("correct horse", .new)
        let hierarchy = fixture.hierarchy
        let former = try #require(try a.state.pin(for: a.key)?.epoch.flatMap { UUID(uuidString: $0) })
        let master = try #require(try await a.state.masterKey(for: a.key, epoch: former.uuidString, on: nil))
        let key = EpochKey(master: master, epoch: former)

        // The forger has another state directory, and not the keys.
        try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
        let forger = try fixture.device("forger")
        try await forger.setUp("anything", .new)
        let epoch = try #require(try await forger.epoch().flatMap { UUID(uuidString: $0) })
        let registration = try #require(try await a.backend.smallFile(at: hierarchy.registration))
        let proof: [UInt8]? =
            switch forgery {
            case .withoutProof: nil
            case .ownProof:
                SuccessorProof(
                    former: EpochKey(master: MasterKey(), epoch: former),
                    successor: epoch,
                    registration: registration
                ).bytes
            case .borrowedProof:
                SuccessorProof(former: key, successor: UUID(), registration: registration + [10]).bytes
            case .damagedProof:
                {
                    var bytes = SuccessorProof(former: key, successor: epoch, registration: registration).bytes
                    bytes[90] ^= 1
                    return bytes
                }()
            }
        if let proof { try await a.backend.write(proof, to: hierarchy.successor(epoch), when: .always) }

        let before = try await contents(of: a.backend)
        do {
            _ = try await a.register().value
            Issue.record("nothing was thrown")
        } catch let error as StoreSyncError {
            #expect(error.code == .deregistered && error.isSuccessorProven == false)
            #expect(error.message.contains("nothing proves"))
        }
        #expect(await setup.status.description == "syncRequired, existing, deregistered")
        // The passcode of this device isn't the forger's: it's refused, and the forger learns nothing.
        #expect(await code { try await setup.start("correct horse", .existing) } == .wrongPassword)
        #expect(try await contents(of: a.backend) == before)

        // The same application with a proof made with the former keys is accepted.
        let genuine = SuccessorProof(former: key, successor: epoch, registration: registration).bytes
        try await a.backend.write(genuine, to: hierarchy.successor(epoch), when: .always)
        do {
            _ = try await a.register().value
            Issue.record("nothing was thrown")
        } catch let error as StoreSyncError {
            #expect(error.isSuccessorProven == true, "\(error)")
        }
    }

    @Test("F1: If an attacker switches encryption off, a setup doesn't continue without it")
    func downgraded() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.setUp("correct horse", .new)
        let hierarchy = fixture.hierarchy
        let plain = RegistrationInfo.make(of: a.application, encrypted: false).xml
        try await a.backend.write(plain, to: hierarchy.registration, when: .always)
        try await a.backend.remove(hierarchy.encryption)
        let setup = a.passcodeSetup()
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, existing, encryptionDowngraded")
        #expect(await code { try await setup.start("correct horse", .existing) } == .encryptionDowngraded)
        try await setup.start("battery staple", .new)
        #expect(try await a.status().value.isEncrypted)
    }

    @Test("A tree of TICoreDataSync isn't deleted, whichever action the passcode is for")
    func foreignTree() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        let hierarchy = fixture.hierarchy
        let client = try RemoteIdentifier("original")
        let info = DeviceInfo(client: "original", description: "Objective-C", userInfo: [:])
        for directory in hierarchy.directories { try await a.backend.createDirectory(at: directory) }
        try await a.backend.write(info.xml, to: hierarchy.deviceInfo(client), when: .always)
        let before = try await contents(of: a.backend)
        let setup = a.passcodeSetup()
        try await setup.begin()
        #expect(await setup.syncPasscodeState == .existing)
        for action in SyncStartMessage.Action.allCases {
            let refusal = await code { try await setup.start("x", action) }
            #expect(refusal == (action == .new ? .applicationIncomplete : .encryptionMismatch))
        }
        #expect(try await contents(of: a.backend) == before)
    }

    @Test(
        "A setup doesn't take an application that is still arriving for an empty remote, and removes nothing"
    )
    func arriving() async throws {
        let fixture = try Fixture()
        let (a, hierarchy) = (try fixture.device("a"), fixture.hierarchy)
        try await a.setUp("correct horse", .new)
        let epoch = try #require(try await a.epoch())
        let registration = try #require(try await a.backend.smallFile(at: hierarchy.registration))
        try await a.backend.remove(hierarchy.root)
        for directory in hierarchy.directories { try await a.backend.createDirectory(at: directory) }
        for hasRegistration in [false, true] {
            let b = try fixture.device("b\(hasRegistration)")
            if hasRegistration { try await b.backend.write(registration, to: hierarchy.registration, when: .always) }
            let before = try await contents(of: b.backend)
            let setup = b.passcodeSetup()
            try await setup.begin()
            #expect(await setup.status.description == "syncRequired, existing, applicationIncomplete")
            let message = try SyncStartMessage.cheap("correct horse", action: .existing)
            #expect(await code { try await setup.start(message) } == .applicationIncomplete)
            #expect(try await contents(of: b.backend) == before)
            // The device that was interrupted while it created this application completes it.
            try b.state.noteBegun(epoch: epoch, for: b.key)
            try await setup.begin()
            #expect(await setup.syncPasscodeState == (hasRegistration ? .new : .existing))
        }
        // In an empty directory nothing is arriving.
        try await a.backend.remove(hierarchy.root)
        try await a.backend.createDirectory(at: hierarchy.root)
        let setup = try fixture.device("c").passcodeSetup()
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, new")
    }

    @Test("A storage on which an application can't be replaced safely is refused before anything is written")
    func unsupported() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend(capabilities: [.exclusiveCreate, .atomicReplace])
        let a = try fixture.device("a", backend: backend)
        let setup = try await a.setUp("correct horse", .new)
        let before = try await contents(of: backend)
        #expect(
            await code { try await setup.start("x", .new) } == .unsupportedStorage
        )
        #expect(try await contents(of: backend) == before)
        try await setup.begin()
        #expect(await setup.setupState == .ongoing)
    }

    @Test(
        "A storage that refuses every write of the new keys ends the attempt, whether it shows the former keys or not"
    )
    func refusedKeys() async throws {
        for hidesKeys in [false, true] {
            let fixture = try Fixture()
            let memory = InMemoryBackend(capabilities: .all.subtracting(.exclusiveDirectoryMove))
            try await fixture.device("a", backend: memory).setUp("correct horse", .new)
            let refusing = RefusingBackend(memory, fixture.hierarchy.passwordTest, hidesFile: hidesKeys)
            let setup = try fixture.device("b", backend: refusing).passcodeSetup()
            try await setup.begin()
            let message = try SyncStartMessage.cheap("battery staple", action: .new)
            #expect(await code { try await setup.start(message) } == .busy)
            #expect(await refusing.refusals == 8)
        }
    }

    @Test("D18: No passcode is in a status, an error, a file of the device or of the remote")
    func secrets() async throws {
        let fixture = try Fixture()
        let canaries = ["canary-right", "canary-wrong", "canary-new"]
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.setUp(canaries[0], .new)
        let setup = b.passcodeSetup()
        let states = await setup.states
        var shown: [String] = []
        try await setup.begin()
        for (passcode, action) in [(1, .existing), (0, .existing), (2, .new)] as [(Int, SyncStartMessage.Action)] {
            do {
                try await setup.start(canaries[passcode], action)
            } catch {
                shown += ["\(error)", String(reflecting: error)]
            }
        }
        var dumped = ""
        dump(setup, to: &dumped)
        shown.append(dumped)
        await setup.end()
        for await status in states { shown += ["\(status)", String(reflecting: status)] }
        for text in shown { #expect(!text.contains("canary"), "\(text)") }
        for name in try FileManager.default.subpathsOfDirectory(atPath: fixture.folder.path) {
            guard let bytes = try? Data(contentsOf: fixture.folder.appending(path: name)) else { continue }
            for canary in canaries { #expect(bytes.range(of: Data(canary.utf8)) == nil, "\(name)") }
        }
    }
}

/// A storage that refuses every conditional write of one file.
private actor RefusingBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private let path: RemotePath
    private let hidesFile: Bool
    private(set) var refusals = 0

    init(_ base: any RemoteBackend, _ path: RemotePath, hidesFile: Bool) {
        (self.base, self.path, self.hidesFile) = (base, path, hidesFile)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        path == self.path && hidesFile ? nil : try await base.read(path, range: range)
    }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        guard path == self.path else { return try await base.write(content, to: path, when: condition) }
        refusals += 1
        throw RemoteError(condition == .ifAbsent ? .alreadyExists : .preconditionFailed, "refused", path: path)
    }
}
