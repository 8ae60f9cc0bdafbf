import Foundation
import Keychain
import Operations
import RemoteStorage
import StoreChanges
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Setting up a device by a passcode", .timeLimit(.minutes(60)))
struct PasscodeSetupTests {
    private static let passcode = "correct horse"

    private static func words(_ status: PasscodeSetup.Status) -> String { "\(status)" }

    /// Ends the setup, and returns the states that a reader of the stream saw.
    private static func states(_ setup: PasscodeSetup, _ stream: AsyncStream<PasscodeSetup.Status>) async -> [String] {
        await setup.end()
        var words: [String] = []
        for await status in stream { words.append("\(status)") }
        return words
    }

    @Test(
        "B5, B7, B9, B10, B13: On an empty remote a setup asks for a new passcode, creates data and reports its states"
    )
    func first() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        let setup = device.passcodeSetup()
        let states = await setup.states
        #expect(await setup.setupState == .notRequested)
        try await setup.begin()
        #expect(await setup.setupState == .syncRequired)
        #expect(await setup.syncPasscodeState == .new)
        #expect(await setup.syncError == nil)
        #expect(try await contents(of: device.backend).isEmpty)
        try await setup.start(Self.passcode, .new)
        #expect(await setup.setupState == .ongoing)
        #expect(
            await Self.states(setup, states) == [
                "notRequested, none", "syncRequired, none", "syncRequired, new", "syncStarted, new",
                "ongoing, existing",
            ]
        )
        // The data is protected by the passcode, and uploaded.
        let other = try fixture.device("b")
        let registration = other.registration { _ in .encrypted(try .cheap(Self.passcode)) }
        #expect(try await other.supervisor.add(registration).value.isEncrypted)
        // The device stays set up, without a passcode.
        let again = device.passcodeSetup()
        try await again.begin()
        #expect(await again.setupState == .ongoing)
    }

    @Test("B8, B9, B10: The passcode of existing data unprotects it")
    func existing() async throws {
        let fixture = try Fixture()
        try await fixture.device("a").setUp(Self.passcode, .new)
        let b = try fixture.device("b")
        let setup = b.passcodeSetup()
        let states = await setup.states
        try await setup.begin()
        #expect(await setup.syncPasscodeState == .existing)
        try await setup.start(Self.passcode, .existing)
        #expect(
            await Self.states(setup, states) == [
                "notRequested, none", "syncRequired, none", "syncRequired, existing", "syncStarted, existing",
                "ongoing, existing",
            ]
        )
        #expect(try await b.status().value.clients.count == 2)
    }

    @Test("B11, B14: After a failure a passcode is required again, with the reason, and either action is possible")
    func failures() async throws {
        let fixture = try Fixture()
        try await fixture.device("a").setUp(Self.passcode, .new)
        let setup = try fixture.device("b").passcodeSetup()
        try await setup.begin()
        let before = try await contents(of: fixture.device("a").backend)
        for _ in 1...2 {
            #expect(await code { try await setup.start("wrong", .existing) } == .wrongPassword)
            #expect(await setup.status.description == "syncRequired, existing, wrongPassword")
        }
        #expect(try await contents(of: fixture.device("a").backend) == before)
        try await setup.start(Self.passcode, .existing)
        #expect(await setup.status.description == "ongoing, existing")
    }

    @Test("B6: While the storage can't be reached the state is none, with the reason, and then it changes by itself")
    func offline() async throws {
        let fixture = try Fixture()
        let failures = Locked(3)
        let device = try fixture.device("a") { change in
            guard change.hasPrefix("before list of") else { return }
            let fails = failures.withLock { left in
                left -= 1
                return left >= 0
            }
            if fails { throw RemoteError(.unavailable, "unplugged") }
        }
        let setup = device.passcodeSetup()
        let states = await setup.states
        let early = await code { try await setup.start("x", .new) }
        #expect(early == .notExpected)
        #expect(await code { try await setup.begin(retry: RetryPolicy(maximumAttempts: 1)) } == .remoteUnavailable)
        #expect(await setup.status.description == "syncRequired, none, remoteUnavailable")
        for action in SyncStartMessage.Action.allCases {
            #expect(
                await code { try await setup.start("x", action) } == .notExpected
            )
        }
        failures.withLock { $0 = 5 }
        try await setup.begin(retry: RetryPolicy(maximumAttempts: .max, initialDelay: .zero) { _ in true })
        #expect(await setup.status.description == "syncRequired, new")
        let words = await Self.states(setup, states)
        #expect(words.contains("syncRequired, none, remoteUnavailable") && words.last == "syncRequired, new")
        #expect(try await contents(of: fixture.device("b").backend).isEmpty)
    }

    @Test("B14: If the storage fails while data is created, a passcode is required again and the next attempt succeeds")
    func newFails() async throws {
        let fixture = try Fixture()
        let isOffline = Locked(false)
        let device = try fixture.device("a") { change in
            guard change.hasPrefix("before write of"), isOffline.withLock({ $0 }) else { return }
            throw RemoteError(.unavailable, "unplugged")
        }
        let setup = device.passcodeSetup()
        try await setup.begin()
        isOffline.withLock { $0 = true }
        let message = try SyncStartMessage.cheap(Self.passcode, action: .new)
        #expect(await code { try await setup.start(message) } == .remoteUnavailable)
        #expect(await setup.status.description == "syncRequired, new, remoteUnavailable")
        isOffline.withLock { $0 = false }
        try await setup.start(message)
        #expect(await setup.status.description == "ongoing, existing")
    }

    @Test("B4: An application that isn't encrypted accepts no passcode, and only new data in its place has one")
    func unencrypted() async throws {
        let fixture = try Fixture()
        let plain = try fixture.device("plain")
        try await plain.push(adding: "one")
        let before = try await contents(of: plain.backend)
        let b = try fixture.device("b")
        let setup = b.passcodeSetup()
        try await setup.begin()
        #expect(await setup.syncPasscodeState == .existing)
        #expect(await code { try await setup.start("x", .existing) } == .encryptionMismatch)
        #expect(try await contents(of: b.backend) == before)
        try await setup.start(Self.passcode, .new)
        #expect(try await b.status().value.isEncrypted)
        #expect(try await b.status().value.documents.isEmpty)
        #expect(await code { try await plain.push().value } == .deregistered)
    }

    @Test(
        "B12, B13: New data over existing data deletes it, has a new epoch and keys, and deregisters all other devices",
        arguments: PasscodePlace.allCases,
        [true, false]
    )
    func replaces(place: PasscodePlace, hasKeys: Bool) async throws {
        let fixture = try Fixture()
        let backend = place.backend(fixture)
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        let first = try await a.setUp(Self.passcode, .new)
        let second = try await b.setUp(Self.passcode, .existing)
        try await a.push(adding: "one")
        _ = try await b.pull().value
        let former = try await contents(of: backend)
        let oldEpoch = try await a.epoch()

        // The device that starts over is set up, or new and without keys.
        let resetter = hasKeys ? a : try fixture.device("c", backend: backend)
        let setup = hasKeys ? first : resetter.passcodeSetup()
        if !hasKeys { try await setup.begin() }
        let states = await setup.states
        try await setup.start("battery staple", .new)
        #expect(await Self.states(setup, states).suffix(2) == ["syncStarted, existing", "ongoing, existing"])
        let epoch = try await a.epoch()
        #expect(epoch != nil && epoch != oldEpoch)
        // No file of the former application is left, except the read-me, which explains the directory.
        let now = try await contents(of: backend)
        for (path, bytes) in former where bytes != nil && !path.hasSuffix("ReadMe.txt") {
            #expect(now[path] == nil || now[path] != bytes, "\(path)")
        }
        #expect(!now.keys.contains { $0.contains(".replaced") || $0.contains(".removing") }, "\(now.keys)")
        #expect(try await resetter.status().value.clients.map(\.description) == [resetter.name])

        // The other device is told by its next operation, and also whether the successor is proven.
        let told = await second.states
        do {
            _ = try await b.push().value
            Issue.record("nothing was thrown")
        } catch let error as StoreSyncError {
            #expect(error.code == .deregistered && error.isSuccessorProven == hasKeys, "\(error)")
            #expect(error.message.contains("nothing proves") != hasKeys, "\(error)")
        }
        #expect(await second.status.description == "syncRequired, existing, deregistered")
        #expect(await second.syncError?.isSuccessorProven == hasKeys)
        // The former passcode is refused, and the new one accepted.
        #expect(await code { try await second.start(Self.passcode, .existing) } == .wrongPassword)
        try await second.start("battery staple", .existing)
        #expect(await Self.states(second, told).last == "ongoing, existing")
        let report = try await b.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")

        // The device that started over pushes its store, and the other device pulls it.
        try await resetter.push(adding: "two")
        _ = try await b.pull(overwrite: true).value
        #expect(try b.notes() == (hasKeys ? ["one", "two"] : ["two"]))
    }

    @Test("When data was replaced, its creator synchronizes its store, and other devices have to say what counts")
    func synchronizedStores() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.setUp(Self.passcode, .new)
        try await b.setUp(Self.passcode, .existing)
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        _ = try await b.synchronize().value
        try a.insert("from a")
        try b.insert("from b")
        try await a.setUp("battery staple", .new)
        #expect(try await a.synchronize().value.transfer == .uploaded)
        try await b.setUp("battery staple", .existing)
        #expect(await code { try await b.synchronize().value } == .unrelatedStore)
        _ = try await b.synchronize { $0.takenSide = .both }.value
        #expect(try b.titles() == ["from a", "from b"])
    }

    @Test("F9: New data can replace data that can't be opened any more, or that claims to be unencrypted")
    func damaged() async throws {
        for damage in ["Encryption/test.ticdsync", "Information/registration.plist"] {
            let fixture = try Fixture()
            let a = try fixture.device("a")
            try await a.setUp(Self.passcode, .new)
            let url = fixture.share.appending(path: "\(fixture.application)/\(damage)")
            try Data("damaged".utf8).write(to: url)
            let setup = a.passcodeSetup()
            try await setup.begin()
            #expect(await setup.setupState == .syncRequired)
            #expect(await setup.syncPasscodeState == .existing)
            #expect(await setup.syncError != nil, "\(damage)")
            let before = try await contents(of: a.backend)
            let reason = await code { try await setup.start(Self.passcode, .existing) }
            #expect(
                [.corrupt, .unsupportedFormat, .tampered].contains(reason),
                "\(damage): \(String(describing: reason))"
            )
            #expect(try await contents(of: a.backend) == before)
            try await setup.start("battery staple", .new)
            #expect(await setup.status.description == "ongoing, existing")
            #expect(try await a.verify().value.problems.isEmpty)
        }
    }

    @Test("D16: If a known application is missing, another one is created only if the user says so")
    func missing() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.setUp(Self.passcode, .new)
        let root = fixture.share.appending(path: fixture.application.rawValue)
        let aside = fixture.folder.appending(path: "aside")
        try FileManager.default.moveItem(at: root, to: aside)
        let setup = a.passcodeSetup()
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, none, applicationMissing")
        #expect(await code { try await setup.start(Self.passcode, .existing) } == .notExpected)
        // The storage is mounted again.
        try FileManager.default.moveItem(at: aside, to: root)
        #expect(await code { try await setup.start("battery staple", .new) } == .applicationChanged)
        try await setup.begin()
        #expect(await setup.status.description == "ongoing, existing")
        try FileManager.default.removeItem(at: root)
        try await setup.begin()
        try await setup.start("battery staple", .new)
        #expect(await setup.status.description == "ongoing, existing")
        #expect(try await a.status().value.clients.count == 1)
    }

    @Test("B11: A decision applies only to what the user decided about: data that appeared meanwhile isn't deleted")
    func changedMeanwhile() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let (first, second) = (a.passcodeSetup(), b.passcodeSetup())
        try await first.begin()
        try await second.begin()
        try await first.start(Self.passcode, .new)
        let before = try await contents(of: a.backend)
        let message = try SyncStartMessage.cheap("battery staple", action: .new)
        #expect(await code { try await second.start(message) } == .applicationChanged)
        #expect(await second.status.description == "syncRequired, existing, applicationChanged")
        #expect(try await contents(of: a.backend) == before)
        // Now the new data has been seen.
        try await second.start(message)
        #expect(await second.status.description == "ongoing, existing")
        #expect(await code { try await a.status().value } == .deregistered)
    }

    @Test("B6: If an attempt fails during an examination, the application is examined again")
    func attemptDuringExamination() async throws {
        let fixture = try Fixture()
        let connection = DyingBackend(LocalFolderBackend(root: fixture.share))
        let a = try fixture.device("a", backend: connection)
        try await a.setUp(Self.passcode, .new)
        let root = fixture.share.appending(path: fixture.application.rawValue)
        let aside = fixture.folder.appending(path: "aside")
        try FileManager.default.moveItem(at: root, to: aside)
        let setup = a.passcodeSetup()
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, none, applicationMissing")
        let refusal = Locked<StoreSyncError.Code?>(nil)
        await connection.meet(atRequest: 0) {
            // The storage is mounted again while the user chooses new data.
            try? FileManager.default.moveItem(at: aside, to: root)
            let reason = await code { try await setup.start("battery staple", .new) }
            refusal.withLock { $0 = reason }
        }
        try await setup.begin()
        #expect(refusal.withLock { $0 } == .applicationChanged)
        #expect(await setup.status.description == "ongoing, existing")
    }

    @Test("B11: The reason of an attempt that failed during an examination stays until the next request")
    func failureDuringExamination() async throws {
        let fixture = try Fixture()
        try await fixture.device("a").setUp(Self.passcode, .new)
        let connection = DyingBackend(LocalFolderBackend(root: fixture.share))
        let setup = try fixture.device("b", backend: connection).passcodeSetup()
        try await setup.begin()
        let refusal = Locked<StoreSyncError.Code?>(nil)
        await connection.meet(atRequest: 0) {
            let reason = await code { try await setup.start("wrong", .existing) }
            refusal.withLock { $0 = reason }
        }
        try await setup.begin()
        #expect(refusal.withLock { $0 } == .wrongPassword)
        #expect(await setup.status.description == "syncRequired, existing, wrongPassword")
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, existing")
    }

    @Test("An application that this device has created again is examined while another operation uses it")
    func examinationDuringOperation() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.setUp(Self.passcode, .new)
        // As if the device had died when it had registered with the application, before its replacement was complete.
        let epoch = try #require(try await a.epoch())
        let client = try #require(try a.state.peekClientIdentifier(for: a.key))
        let begun = BegunReplacement(epoch: epoch, client: client, formerEpoch: nil)
        try a.state.noteReplacement(begun, for: a.key)
        let lock = try a.state.lock(.application(a.key), .shared)
        defer { lock.release() }
        let setup = a.passcodeSetup()
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, existing")
    }

    @Test("A setup that ends while an attempt examines the application replaces nothing")
    func endsDuringExamination() async throws {
        let fixture = try Fixture()
        let memory = InMemoryBackend()
        try await fixture.device("a", backend: memory).setUp(Self.passcode, .new)
        let before = try await contents(of: memory)
        let message = try SyncStartMessage.cheap("battery staple", action: .new)
        var (number, count) = (1, 1)
        while number <= count {
            let backend = AnsweringBackend(memory)
            let setup = try fixture.device("a", backend: backend).passcodeSetup()
            try await setup.begin()
            #expect(await setup.setupState == .ongoing)
            count = await backend.answers
            await backend.meet(afterAnswer: number) { await setup.end() }
            await #expect(throws: (any Error).self, "answer \(number) of \(count)") { try await setup.start(message) }
            #expect(try await contents(of: memory) == before, "answer \(number) of \(count)")
            number += 1
        }
        #expect(count > 5)
    }

    @Test("Changing the passcode on a device that is set up deregisters no device, and changes one file")
    func passcodeChange() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let setup = try await a.setUp(Self.passcode, .new)
        try await b.setUp(Self.passcode, .existing)
        let before = try await contents(of: a.backend)
        #expect(try await setup.changePasscode(to: .cheap("battery staple")) == 2)
        let after = try await contents(of: a.backend)
        let changed = after.filter { before[$0.key] != $0.value }.keys
        #expect(changed.count == 1 && changed.first?.hasSuffix("test.ticdsync") == true, "\(changed)")
        #expect(try await b.status().value.clients.count == 2)
        let c = try fixture.device("c")
        let third = c.passcodeSetup()
        #expect(await code { try await third.changePasscode(to: Password("x")) } == .notExpected)
        try await third.begin()
        #expect(await code { try await third.start(Self.passcode, .existing) } == .wrongPassword)
        try await third.start("battery staple", .existing)
        #expect(await third.setupState == .ongoing)
    }

    @Test("A changed passcode's hash costs what the former one's did, unless the app asks for more")
    func costOfChange() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.setUp(Self.passcode, .new)
        let path = fixture.hierarchy.passwordTest
        let more = PasswordParameters(passes: PasswordParameters.interactive.passes + 1, memoryKibibytes: 65_536)
        var manager = a.manager(Asker())
        for (number, parameters) in [nil, more].enumerated() {
            manager.passwordParameters = parameters
            let setup = manager.passcodeSetup()
            try await setup.begin()
            try await setup.changePasscode(to: Password("battery staple \(number)"))
            let file = try KeyFile(#require(try await a.backend.smallFile(at: path)))
            #expect(file.parameters == parameters ?? .interactive)
        }
    }

    @Test("A client that was removed must give the passcode, which is checked although the device has the keys")
    func removedClient() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        let setup = try await a.setUp(Self.passcode, .new)
        let client = try #require(try await a.status().value.client)
        let note = fixture.hierarchy.deletedClient(try RemoteIdentifier(client))
        let role = ApplicationSeal.Role.removedClient(.init(on: try RemoteIdentifier(client), by: nil))
        try await a.backend.write(a.register().value.seal.seal([1], as: role), to: note, when: .always)
        #expect(await code { try await a.register().value } == .deregistered)
        #expect(await setup.status.description == "syncRequired, existing, deregistered")
        #expect(await setup.syncError?.isSuccessorProven == nil)
        #expect(await code { try await setup.start("wrong", .existing) } == .wrongPassword)
        try await setup.start(Self.passcode, .existing)
        #expect(try await a.register().value.client.rawValue != client)
    }

    @Test(
        "A device that signed out can check a note on its removal only with the passcode: a forged one costs it nothing",
        arguments: [false, true]
    )
    func signedOutClient(isAuthentic: Bool) async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        try await a.setUp(Self.passcode, .new)
        let registration = try await a.register().value
        let item = KeychainItem(service: "notes", account: "unpublished", isSynchronizable: true)
        try await a.keychain().add(SecretBytes("secret"), as: item)
        let note = fixture.hierarchy.deletedClient(registration.client)
        let role = ApplicationSeal.Role.removedClient(.init(on: registration.client, by: nil))
        let forged = ApplicationSeal(
            application: fixture.application,
            key: EpochKey(master: MasterKey(), epoch: try #require(registration.seal.key?.epoch))
        )
        let seal = isAuthentic ? registration.seal : forged
        try await a.backend.write(seal.seal([1], as: role), to: note, when: .always)
        try await a.manager(Asker()).forgetKeys().value
        let setup = a.passcodeSetup()
        try await setup.begin()
        #expect(await setup.status.description == "syncRequired, existing")
        #expect(await code { try await setup.start("wrong", .existing) } == .wrongPassword)
        try await setup.start(Self.passcode, .existing)
        #expect(await setup.status.description == "ongoing, existing")
        let again = try await a.register().value
        #expect((again.client == registration.client) == !isAuthentic)
        #expect(try await a.items().isEmpty == isAuthentic)
        #expect(again.warnings.isEmpty == isAuthentic)
    }

    @Test("The stream of states ends when the setup is released or ended, and a slow reader gets the last state")
    func sequences() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        var setup: PasscodeSetup? = device.passcodeSetup()
        let stream = try #require(await setup?.states)
        for _ in 0..<100 { try await setup?.begin() }
        #expect(await setup?.status.description == "syncRequired, new")
        setup = nil
        var seen: [String] = []
        for await status in stream { seen.append("\(status)") }
        #expect(seen.count == 64 && seen.last == "syncRequired, new")

        let ended = device.passcodeSetup()
        await ended.end()
        var last: [String] = []
        for await status in await ended.states { last.append("\(status)") }
        #expect(last == ["notRequested, none"])
        #expect(await code { try await ended.begin() } == .notExpected)
        #expect(await code { try await ended.start("x", .new) } == .notExpected)
    }
}

/// A storage that runs an action when it has answered a certain number of reading requests.
private actor AnsweringBackend: ForwardingBackend {
    nonisolated let base: any RemoteBackend
    private(set) var answers = 0
    private var meeting: (answer: Int, body: @Sendable () async -> Void)?

    init(_ base: any RemoteBackend) { self.base = base }

    /// Starts counting answers, and runs `body` before one of them arrives.
    func meet(afterAnswer number: Int, _ body: @escaping @Sendable () async -> Void) {
        answers = 0
        meeting = (number, body)
    }

    private func answer<Answer>(_ answer: Answer) async -> Answer {
        answers += 1
        if answers == meeting?.answer, let (_, body) = meeting.take() { await body() }
        return answer
    }

    func status(of path: RemotePath) async throws -> RemoteItem? { await answer(try await base.status(of: path)) }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? { await answer(try await base.list(directory)) }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        await answer(try await base.read(path, range: range))
    }
}
