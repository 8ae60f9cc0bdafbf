import ContentDigests
import Foundation
import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync
@testable import SyncCryptography

@Suite("Sealed applications", .timeLimit(.minutes(60)))
struct SealedTests {
    private static let password = "correct horse battery staple"

    // MARK: Pushing and pulling

    @Test("D18: What is pushed on one device is pulled on another, and the storage can read nothing of it")
    func roundTrip() async throws {
        let fixture = try Fixture(password: Self.password)
        let (a, b) = (try fixture.device("canary-laptop"), try fixture.device("canary-desktop"))
        let pushed = try await a.push(adding: "canary-note")
        #expect(pushed.isEncrypted)
        #expect(pushed.storedBytes < pushed.bytes)
        let pulled = try await b.pull().value
        #expect(pulled.isEncrypted && pulled.from == pushed.client)
        #expect(try b.notes() == ["canary-note"])
        try await b.push(adding: "canary-second")
        _ = try await a.pull().value
        #expect(try a.notes() == ["canary-note", "canary-second"])
        #expect(try await a.push().value.isUnchanged)
        let status = try await a.status().value
        #expect(status.isEncrypted && status.clients.count == 2)
        #expect(Set(status.clients.map(\.description)) == ["canary-laptop", "canary-desktop"])
        #expect(status.documents.map(\.description) == ["store.sqlite"])
        let report = try await b.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
        for (name, bytes) in try fixture.files() {
            for canary in ["canary", "store.sqlite", "SQLite format", "kTICDS", Self.password] {
                #expect(bytes.range(of: Data(canary.utf8)) == nil, "\(canary) in \(name)")
            }
        }
    }

    @Test("R14, R15, F6: After a wrong password the question is repeated and says so, as often as it's answered")
    func wrongPassword() async throws {
        let fixture = try Fixture(password: Self.password)
        _ = try await fixture.device("first").register().value
        let before = try fixture.files()
        let questions = Locked<[EncryptionQuestion]>([])
        let answers = try ["wrong", "Wrong", Self.password].map { try Password.cheap($0) }
        let device = try fixture.device("second")
        let registration = device.registration { question in
            let count = questions.withLock { questions in
                questions.append(question)
                return questions.count
            }
            return .encrypted(answers[count - 1])
        }
        let registered = try await device.supervisor.add(registration).value
        #expect(registered.isEncrypted && !registered.didCreateApplication)
        #expect(
            questions.withLock { $0 }
                == [false, true, true].map { EncryptionQuestion.joiningEncrypted(passwordWasWrong: $0) }
        )
        // The third device doesn't know the password. It's refused, and nothing is written.
        let after = try fixture.files()
        #expect(after.count == before.count + 1)
        let stranger = try fixture.device("stranger")
        let refused = stranger.registration { question in
            guard question == .joiningEncrypted(passwordWasWrong: false) else { throw CancellationError() }
            return .encrypted(answers[0])
        }
        await #expect(throws: CancellationError.self) { try await stranger.supervisor.add(refused).value }
        let unencrypted = stranger.registration { _ in .unencrypted }
        #expect(await code { try await stranger.supervisor.add(unencrypted).value } == .encryptionMismatch)
        #expect(try fixture.files() == after)
    }

    @Test("R13, R38: A device that has the keys is asked nothing, and refuses a key file that isn't its application's")
    func keysAreKept() async throws {
        let fixture = try Fixture(password: Self.password)
        let device = try fixture.device("device")
        _ = try await device.register().value
        let silent = device.registration { question in
            Issue.record("asked \(question)")
            throw CancellationError()
        }
        _ = try await device.supervisor.add(silent).value
        // The same password and epoch, but another key.
        let path = fixture.url(fixture.hierarchy.passwordTest)
        let registration = try Data(contentsOf: fixture.url(fixture.hierarchy.registration))
        let other = try await KeyFile.create(
            wrapping: MasterKey(),
            with: try Password.cheap(Self.password),
            epoch: try KeyFile(Array(Data(contentsOf: path))).epoch,
            registration: Array(registration),
            parameters: .interactive
        )
        try Data(other.bytes).write(to: path)
        let before = try fixture.files()
        #expect(await code { try await device.register().value } == .tampered)
        #expect(try fixture.files() == before)
    }

    // MARK: The password is changed

    @Test("A password that another device sets while the user is asked is accepted, also after a wrong one")
    func changedWhileAsked() async throws {
        let fixture = try Fixture(password: Self.password)
        let first = try fixture.device("first")
        _ = try await first.register().value
        let (second, third, wrong) = ("another one", "yet another one", "a wrong one")
        for (new, answers) in [(second, [second]), (third, [wrong, third])] {
            let device = try fixture.device("device-\(answers.count)")
            let questions = Locked<[EncryptionQuestion]>([])
            let registration = device.registration { question in
                let count = questions.withLock { questions in
                    questions.append(question)
                    return questions.count
                }
                if count == 1 {
                    _ = try await first.changePassword(to: new)
                }
                guard count <= answers.count else { throw CancellationError() }
                return .encrypted(try .cheap(answers[count - 1]))
            }
            _ = try await device.supervisor.add(registration).value
            #expect(
                questions.withLock { $0 }
                    == answers.indices.map { EncryptionQuestion.joiningEncrypted(passwordWasWrong: $0 > 0) }
            )
            #expect(try device.state.pin(for: device.key)?.passwordVersion == UInt32(answers.count + 1))
        }
    }

    @Test(
        "F5: A password change writes one file, devices with keys continue, and the old password and file are refused"
    )
    func passwordChange() async throws {
        let fixture = try Fixture(password: Self.password)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        _ = try await b.pull().value
        let documents = fixture.url(fixture.hierarchy.documents)
        for number in 0..<200 {
            try FileManager.default.copyItem(
                at: documents.appending(path: fixture.document.rawValue),
                to: documents.appending(path: "copy-\(number)")
            )
        }
        let before = try fixture.files()
        #expect(before.count > 1_000)
        #expect(try await a.changePassword(to: "another one") == 2)
        let after = try fixture.files()
        let test = "\(fixture.hierarchy.passwordTest)"
        #expect(Set(after.keys) == Set(before.keys))
        #expect(after.filter { before[$0.key] != $0.value }.map(\.key) == [test])
        // A device that has the keys continues.
        try await b.push(adding: "two")
        _ = try await a.pull().value
        #expect(try a.notes() == ["one", "two"])
        // A new device needs the new password.
        let new = try fixture.device("new")
        #expect(await code { try await new.register().value } == .wrongPassword)
        // The former file is put back: a device that has seen the newer file isn't deceived.
        try #require(before[test]).write(to: fixture.url(fixture.hierarchy.passwordTest))
        #expect(await code { try await a.register().value } == .rolledBack)
        #expect(await code { try await b.register().value } == .rolledBack)
    }

    @Test("A password change is paused only while it asks for the new password", arguments: [true, false])
    func passwordChangePauses(asks: Bool) async throws {
        let fixture = try Fixture(password: Self.password)
        let device = try fixture.device("device")
        _ = try await device.register().value
        let change = PasswordChangeOperation(
            asking: { context in
                let password = try Password.cheap("another one")
                guard asks else { return password }
                return try await context.pause(awaiting: "the new password") { password }
            },
            of: fixture.application,
            parameters: .interactive,
            backend: device.backend,
            state: device.state,
            delegate: nil
        )
        // The operation starts when its events are observed, so that none is missed.
        device.supervisor.isSuspended = true
        let handle = device.supervisor.add(change)
        let events = handle.events
        device.supervisor.isSuspended = false
        #expect(try await handle.value == 2)
        var pauses: [String] = []
        for await event in events {
            if case .paused(let reason) = event { pauses.append(reason) }
        }
        #expect(pauses == (asks ? ["the new password"] : []))
    }

    @Test("The password of an application that isn't encrypted, or doesn't exist, can't be changed")
    func passwordChangeRefused() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        func change() async throws -> Int {
            let operation = PasswordChangeOperation(
                to: try Password.cheap("new"),
                of: fixture.application,
                backend: device.backend,
                state: device.state
            )
            return try await device.supervisor.add(operation).value
        }
        #expect(await code { try await change() } == .applicationMissing)
        _ = try await device.register().value
        #expect(await code { try await change() } == .encryptionMismatch)
    }

    // MARK: Untrusted storage

    /// The attacks on the encryption of an application.
    enum Attack: String, Sendable, CaseIterable, CustomTestStringConvertible {
        case noSalt, noTest, noRegistration, none, noneWithoutKeys, otherEpoch, otherEpochThenNone, noEncryptionAtAll

        var testDescription: String { rawValue }

        func apply(_ fixture: Fixture) throws {
            let hierarchy = fixture.hierarchy
            func remove(_ paths: RemotePath...) throws {
                for path in paths { try FileManager.default.removeItem(at: fixture.url(path)) }
            }
            func register(_ change: (inout RegistrationInfo) -> Void) throws {
                let bytes = Array(try Data(contentsOf: fixture.url(hierarchy.registration)))
                var info = try RegistrationInfo(bytes, at: hierarchy.registration)
                change(&info)
                try Data(info.xml).write(to: fixture.url(hierarchy.registration))
            }
            switch self {
            case .noSalt: try remove(hierarchy.salt)
            case .noTest: try remove(hierarchy.passwordTest)
            case .noRegistration: try remove(hierarchy.registration)
            case .none: try register { $0.encryption = RegistrationInfo.unencrypted }
            case .noneWithoutKeys:
                try remove(hierarchy.salt, hierarchy.passwordTest)
                try register { $0.encryption = RegistrationInfo.unencrypted }
            case .otherEpoch: try register { $0.epoch = UUID().uuidString }
            case .otherEpochThenNone:
                try remove(hierarchy.salt, hierarchy.passwordTest)
                try register { $0 = RegistrationInfo.make(of: fixture.application, encrypted: false) }
            case .noEncryptionAtAll: try remove(hierarchy.registration, hierarchy.salt, hierarchy.passwordTest)
            }
        }

        /// The code of the error on a device that has registered before.
        var known: StoreSyncError.Code { self == .otherEpoch ? .deregistered : .encryptionDowngraded }

        /// The code of the error on a new device, or `nil` if it's registered.
        var fresh: StoreSyncError.Code? {
            switch self {
            // The device creates the same salt again, from the key file.
            case .noSalt: nil
            case .noTest, .none: .encryptionDowngraded
            // The device finds no encryption, and wants it.
            case .noneWithoutKeys, .otherEpochThenNone: .encryptionMismatch
            case .noRegistration, .noEncryptionAtAll: .applicationIncomplete
            case .otherEpoch: .tampered
            }
        }
    }

    @Test(
        "F1: Encryption can't be switched off from outside, and nothing is written in plaintext",
        arguments: Attack.allCases
    )
    func attack(_ attack: Attack) async throws {
        let fixture = try Fixture(password: Self.password)
        let device = try fixture.device("device")
        try await device.push(adding: "canary")
        try attack.apply(fixture)
        let before = try fixture.files()
        try device.write("more")
        for operation in 0..<3 {
            let code = await code {
                switch operation {
                case 0: _ = try await device.register().value
                case 1: _ = try await device.push().value
                default: _ = try await device.pull(overwrite: true).value
                }
                return ()
            }
            #expect(code == attack.known, "operation \(operation)")
        }
        #expect(try fixture.files() == before)
        let fresh = try fixture.device("fresh")
        if let expected = attack.fresh {
            #expect(await code { try await fresh.register().value } == expected)
            #expect(try fixture.files() == before)
        } else {
            #expect(try await fresh.register().value.isEncrypted)
        }
        // A device that wants no encryption writes nothing either.
        let plain = try fixture.device("plain")
        let handle = plain.supervisor.add(plain.registration { _ in .unencrypted })
        if attack == .noneWithoutKeys || attack == .otherEpochThenNone {
            // No file is left that shows that the application was encrypted.
            _ = try await handle.value
        } else {
            let now = try fixture.files()
            _ = await code { try await handle.value }
            #expect(try fixture.files() == now)
        }
    }

    @Test("If the root is unmounted, the application is missing, and nothing is written, forgotten or asked")
    func unmounted() async throws {
        let fixture = try Fixture(password: Self.password)
        let device = try fixture.device("device")
        try await device.push(adding: "one")
        let aside = fixture.folder.appending(path: "aside")
        let root = fixture.share.appending(path: fixture.application.rawValue)
        try FileManager.default.moveItem(at: root, to: aside)
        #expect(await code { try await device.register().value } == .applicationMissing)
        #expect(await code { try await device.push().value } == .applicationMissing)
        #expect(await code { try await device.status().value } == .applicationMissing)
        #expect(try fixture.files().isEmpty)
        // A device that starts over creates another application, but not in plaintext.
        let plain = device.registration(registersAgain: true) { _ in .unencrypted }
        #expect(await code { try await device.supervisor.add(plain).value } == .encryptionDowngraded)
        #expect(try fixture.files().isEmpty)
        try FileManager.default.moveItem(at: aside, to: root)
        let silent = device.registration { question in
            Issue.record("asked \(question)")
            throw CancellationError()
        }
        _ = try await device.supervisor.add(silent).value
        #expect(try await device.push().value.isUnchanged)
    }

    @Test(
        "An application that a synced folder has partly delivered is incomplete or joined, and no other is created"
    )
    func deliveredSubsets() async throws {
        let fixture = try Fixture(password: Self.password)
        let device = try fixture.device("device")
        try await device.push(adding: "one")
        let all = try fixture.files()
        let groups = ["ReadMe.txt", "ClientDevices", "Documents", "Encryption/salt", "Encryption/test", "Information"]
        let root = fixture.share.appending(path: fixture.application.rawValue)
        let aside = fixture.folder.appending(path: "whole")
        try FileManager.default.moveItem(at: root, to: aside)
        for subset in 1..<(1 << groups.count) - 1 {
            let delivered = groups.indices.filter { subset & 1 << $0 != 0 }.map { groups[$0] }
            try? FileManager.default.removeItem(at: root)
            for (name, bytes) in all where delivered.contains(where: { name.contains("/\($0)") }) {
                let url = fixture.share.appending(path: name)
                try FileManager.default.createDirectory(
                    at: url.deletingLastPathComponent(),
                    withIntermediateDirectories: true
                )
                try bytes.write(to: url)
            }
            let before = try fixture.files()
            let fresh = try fixture.device("fresh-\(subset)")
            let isJoinable = delivered.contains("Information") && delivered.contains("Encryption/test")
            do {
                let registered = try await fresh.register().value
                #expect(isJoinable && registered.isEncrypted && !registered.didCreateApplication, "\(delivered)")
                for (name, bytes) in before { #expect(try fixture.files()[name] == bytes, "\(delivered): \(name)") }
            } catch let error as StoreSyncError {
                let expected: Set<StoreSyncError.Code> = [.applicationIncomplete, .encryptionDowngraded]
                #expect(!isJoinable && expected.contains(error.code), "\(delivered): \(error)")
                #expect(try fixture.files() == before, "\(delivered)")
            }
        }
    }

    @Test("verify --repair writes nothing if the registration can't be read")
    func damagedRegistration() async throws {
        let fixture = try Fixture(password: Self.password)
        let device = try fixture.device("device")
        try await device.push(adding: "one")
        try Data("not a property list".utf8).write(to: fixture.url(fixture.hierarchy.registration))
        try FileManager.default.removeItem(at: fixture.url(fixture.hierarchy.readMe))
        let before = try fixture.files()
        let known = try await device.verify(repairs: true).value
        // The rest is checked with the keys that this device has.
        let (root, readMe) = (fixture.hierarchy.registration, fixture.hierarchy.readMe)
        #expect(known.problems.map(\.path) == ["\(root)", "\(readMe)"], "\(known)")
        #expect(known.warnings.isEmpty && known.repaired.isEmpty, "\(known)")
        let stranger = try fixture.device("stranger")
        #expect(try await !stranger.verify(repairs: true).value.problems.isEmpty)
        #expect(try fixture.files() == before)
    }

    @Test("A file with a manifest's name that isn't sealed doesn't hide the existing store")
    func plantedManifest() async throws {
        let fixture = try Fixture(password: Self.password)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let upload = try await a.push(adding: "one")
        let hierarchy = fixture.hierarchy.document(fixture.document)
        for (generation, bytes) in [(7, Data(count: 500)), (8, Data("<plist>".utf8)), (9, Data())] {
            let name = UploadName(client: upload.client, generation: generation, upload: UUID().uuidString)
            try bytes.write(to: fixture.url(hierarchy.manifest(name)))
        }
        let pulled = try await b.pull().value
        #expect(pulled.generation == upload.generation && !pulled.warnings.isEmpty)
        #expect(try b.notes() == ["one"])
        try await b.push(adding: "two")
        #expect(try await a.pull(from: upload.client, overwrite: true).value.generation == upload.generation)
    }

    @Test("F3: Parameters of a password hash that are too low or too high are refused before anything is computed")
    func parameters() async throws {
        let fixture = try Fixture(password: Self.password)
        _ = try await fixture.device("first").register().value
        let path = fixture.url(fixture.hierarchy.passwordTest)
        let original = Array(try Data(contentsOf: path))
        let file = try KeyFile(original)
        // The article on formats gives their offsets. The checksum is computed again.
        for (passes, kibibytes, expected) in [
            (UInt32(1), UInt32(8), StoreSyncError.Code.encryptionDowngraded), (21, 64 << 10, .tampered),
            (3, 64 << 20, .tampered), (.max, .max, .tampered),
        ] {
            let forged = file.replacingParameters(passes: passes, kibibytes: kibibytes)
            try Data(forged).write(to: path)
            let fresh = try fixture.device("fresh-\(passes)-\(kibibytes)")
            let before = try fixture.files()
            #expect(await code { try await fresh.register().value } == expected, "\(passes) \(kibibytes)")
            #expect(try fixture.files() == before)
        }
    }
}

extension KeyFile {
    /// Returns the file with other parameters and a matching checksum, as an attacker would write it.
    fileprivate func replacingParameters(passes: UInt32, kibibytes: UInt32) -> [UInt8] {
        var file = bytes
        for (offset, value) in [(72, passes), (76, kibibytes)] {
            for byte in 0..<4 { file[offset + byte] = UInt8(truncatingIfNeeded: value >> (8 * byte)) }
        }
        let body = Array(file.dropLast(Blake2b.byteCount))
        return body + Blake2b.digest(of: body)
    }
}
