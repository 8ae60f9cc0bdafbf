import Foundation
import Keychain
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Synchronizable keychain items", .timeLimit(.minutes(60)))
struct KeychainSynchronizationTests {
    private static let password = "correct horse battery staple"

    private static func fixture() throws -> Fixture { try Fixture(password: password) }

    private static func item(_ account: String) -> KeychainItem {
        KeychainItem(service: "canary-service", account: account, isSynchronizable: true)
    }

    private static func query(_ account: String) -> KeychainQuery { KeychainQuery(item(account)) }

    /// Returns the URL of a client's file in the shared folder.
    private static func url(of registration: ApplicationRegistration, _ fixture: Fixture) -> URL {
        fixture.share.appending(path: "\(fixture.hierarchy.keychain(registration.client))")
    }

    /// Synchronizes each device often enough that all devices know the same items.
    private static func settle(_ devices: [Device], _ rounds: Int = 3) async throws {
        for _ in 0..<rounds {
            for device in devices {
                let result = try await device.synchronizeKeychain().value
                #expect(result.warnings.isEmpty, "\(result)")
            }
        }
    }

    @Test("A file that the server mixes with its former version, as Apache may, is read again")
    func mixedVersions() async throws {
        let fixture = try Self.fixture()
        let memory = InMemoryBackend()
        let mixing = MixingBackend(memory)
        let (a, b) = (try fixture.device("a", backend: memory), try fixture.device("b", backend: mixing))
        try await Self.settle([a, b])
        for number in 1...3 {
            try await a.keychain().add(SecretBytes("\(number)"), as: Self.item("account \(number)"))
            try await Self.settle([a, b], 1)
        }
        #expect(try await b.items().count == 3)
        #expect(try await b.verify().value.problems.isEmpty)
        #expect(await mixing.mixtures >= 3)
    }

    @Test("Files that a hostile storage has filled aren't in memory at the same time")
    func hugeFiles() async throws {
        let fixture = try Self.fixture()
        let memory = InMemoryBackend()
        let filling = FillingBackend(memory)
        let device = try fixture.device("device", backend: filling)
        try await device.keychain().add(SecretBytes("1"), as: Self.item("account"))
        _ = try await device.synchronizeKeychain().value
        for number in 0..<20 {
            let client = try RemoteIdentifier("forged-\(number)")
            try await memory.write([], to: fixture.hierarchy.keychain(client), when: .always)
        }
        // Of the sizes in the list, or of more than these.
        for listed in [FillingBackend.byteCount, 0] {
            await filling.fill(listed: listed)
            let warnings = try await device.synchronizeKeychain().value.warnings
            #expect(warnings.count == 20 && warnings.allSatisfy { $0.contains("forged") })
            #expect(await filling.maximumBytesAtOnce <= 2 * FillingBackend.byteCount)
        }
        #expect(try await device.items() == ["account": "1"])
    }

    // MARK: Synchronizing

    @Test(
        "K8, K9: Adding, updating and deleting an item on one device reaches the others when they synchronize",
        arguments: [false, true]
    )
    func travels(isFolder: Bool) async throws {
        let fixture = try Self.fixture()
        let backend: (any RemoteBackend)? = isFolder ? nil : InMemoryBackend()
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        try await a.keychain().add(SecretBytes("1"), as: Self.item("account"))
        try await b.keychain().add(SecretBytes("here"), as: KeychainItem(service: "s", account: "stays"))
        #expect(try await a.synchronizeKeychain().value.hasPublished)
        #expect(try await b.synchronizeKeychain().value.hasPublished)
        #expect(try await b.items() == ["account": "1"])
        try await b.keychain().update(Self.query("account"), to: SecretBytes("2"))
        try await Self.settle([b, a])
        #expect(try await a.items() == ["account": "2"])
        #expect(try await !a.synchronizeKeychain().value.hasPublished)
        try await a.keychain().delete(Self.query("account"))
        try await Self.settle([a, b])
        #expect(try await b.items().isEmpty)
        // An item that isn't synchronizable stays on its device.
        #expect(try await b.keychain().copyMatching(.everything).map(\.item.account) == ["stays"])
        await #expect(throws: KeychainError.self) { try await a.keychain().copyMatching(.everything) }
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("R4, R15: A blitz on one device removes nothing from the others, and their items come back")
    func blitz() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.keychain().add(SecretBytes("1"), as: Self.item("account"))
        try await Self.settle([a, b])
        try await a.keychain().blitz(.everything)
        #expect(try await a.items().isEmpty)
        _ = try await b.synchronizeKeychain().value
        #expect(try await b.items() == ["account": "1"])
        try await Self.settle([a, b])
        for device in [a, b] { #expect(try await device.items() == ["account": "1"]) }
    }

    @Test("R4: A device that had forgotten its keys doesn't bring the items of a former application into a new one")
    func forgottenKeys() async throws {
        let fixture = try Self.fixture()
        let device = try fixture.device("device")
        try await device.keychain().add(SecretBytes("1"), as: Self.item("account"))
        _ = try await device.synchronizeKeychain().value
        try await device.manager(Asker()).forgetKeys().value
        #expect(try await device.items() == ["account": "1"])
        try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
        _ = try await device.supervisor.add(device.registration(registersAgain: true)).value
        #expect(try await device.items().isEmpty)
        #expect(try await !device.synchronizeKeychain().value.hasPublished)
    }

    @Test("R15: Creating an application again empties the keychain on that device, and on no other")
    func replaced() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.keychain().add(SecretBytes("1"), as: Self.item("account"))
        try await Self.settle([a, b])
        try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
        _ = try await a.supervisor.add(a.registration(registersAgain: true)).value
        #expect(try await a.items().isEmpty)
        #expect(try await !a.synchronizeKeychain().value.hasPublished)
        #expect(await code { try await b.synchronizeKeychain().value } == .deregistered)
        #expect(try await b.items() == ["account": "1"])
    }

    /// How an application comes to be created again by the device that deleted an item in the former one.
    enum Recreation: CaseIterable {
        case replacing, registeringAgain, removing
    }

    @Test(
        "R15: An item that was deleted in a former application isn't deleted in the application that was created again",
        arguments: Recreation.allCases
    )
    func deletedBeforeRecreation(recreation: Recreation) async throws {
        let fixture = try Self.fixture()
        let (a, b, c) = (try fixture.device("a"), try fixture.device("b"), try fixture.device("c"))
        try await a.keychain().add(SecretBytes("former"), as: Self.item("account"))
        try await Self.settle([a, b])
        // The other device doesn't synchronize, so the deletion is remembered.
        try await a.keychain().delete(Self.query("account"))
        try await Self.settle([a])
        switch recreation {
        case .replacing:
            try await a.setUp(Self.password, .new)
            try await c.setUp(Self.password, .existing)
        case .registeringAgain:
            try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
            _ = try await a.supervisor.add(a.registration(registersAgain: true)).value
        case .removing:
            _ = try await a.removeApplication().value
            _ = try await a.register().value
        }
        try await c.keychain().add(SecretBytes("new"), as: Self.item("account"))
        try await Self.settle([a, c])
        for device in [a, c] { #expect(try await device.items() == ["account": "new"], "\(device.name)") }
    }

    /// What this device does to an application while its keychain is being synchronized.
    enum Interference: CaseIterable {
        case creatingAgain, removing, signingOut
    }

    @Test(
        "R15: Whenever an application is removed or created again during a synchronization, its items don't come back",
        arguments: Interference.allCases
    )
    func changedMeanwhile(interference: Interference) async throws {
        var (number, count, refusals) = (0, 1, 0)
        while number < count {
            let fixture = try Self.fixture()
            let a = try fixture.device("a")
            try await a.keychain().add(SecretBytes("1"), as: Self.item("account"))
            try await Self.settle([a], 1)
            let connection = DyingBackend(LocalFolderBackend(root: fixture.share))
            let (b, other) = (try fixture.device("b", backend: connection), try fixture.device("b"))
            let registration = try await b.register().value
            let isDone = Locked(false)
            await connection.meet(atRequest: number) {
                try? await Self.interfere(interference, other, fixture)
                isDone.withLock { $0 = true }
            }
            let synchronization = b.supervisor.add(
                KeychainSynchronizationOperation(registration, backend: connection, state: b.state)
            )
            do {
                _ = try await synchronization.value
            } catch let error as StoreSyncError
                where error.code == (interference == .signingOut ? .passwordRequired : .applicationChanged)
            {
                refusals += 1
            }
            count = await connection.requests.count
            let done = isDone.withLock { $0 }
            #expect(done)
            if interference != .signingOut { #expect(try await b.items().isEmpty, "at request \(number)") }
            number += 1
        }
        #expect(refusals > 0)
    }

    private static func interfere(_ interference: Interference, _ device: Device, _ fixture: Fixture) async throws {
        switch interference {
        case .creatingAgain:
            try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
            _ = try await device.supervisor.add(device.registration(registersAgain: true)).value
        case .removing: _ = try await device.manager(Asker()).removeApplication().value
        case .signingOut: try await device.manager(Asker()).forgetKeys().value
        }
    }

    @Test(
        "K8: After any order of edits, blitzes and crashes, four devices have the same items",
        arguments: [false, true]
    )
    func programs(isFolder: Bool) async throws {
        for seed in TestDepth.seeds(quick: 1, deep: 100) {
            var generator = SplitMix64(seed: seed)
            let fixture = try Self.fixture()
            let memory = InMemoryBackend()
            let bomb = Bomb()
            let devices = try (0..<4).map { index in
                try isFolder
                    ? fixture.device("\(index)", hook: bomb.tick) : fixture.device("\(index)", backend: memory)
            }
            for step in 0..<40 {
                let device = devices[Int.random(in: 0..<4, using: &generator)]
                let account = "\(Int.random(in: 0..<4, using: &generator))"
                do {
                    switch Int.random(in: 0..<10, using: &generator) {
                    case 0..<2: try await device.keychain().add(SecretBytes("\(step)"), as: Self.item(account))
                    case 2..<4: try await device.keychain().update(Self.query(account), to: SecretBytes("\(step)"))
                    case 4..<6: try await device.keychain().delete(Self.query(account))
                    case 6: try await device.keychain().blitz(Self.query(account))
                    case 7:
                        bomb.arm(Int.random(in: 0..<40, using: &generator))
                        _ = await device.synchronizeKeychain().result
                        bomb.disarm()
                    default: _ = try await device.synchronizeKeychain().value
                    }
                } catch let error as KeychainError {
                    #expect([.duplicateItem, .itemNotFound].contains(error.code), "seed \(seed): \(error)")
                }
            }
            try await Self.settle(devices, 5)
            let items = try await devices[0].items()
            for device in devices {
                #expect(try await device.items() == items, "seed \(seed)")
                #expect(try await !device.synchronizeKeychain().value.hasPublished, "seed \(seed)")
            }
        }
    }

    // MARK: The content of the remote

    @Test("D18: Neither names nor secrets of items are anywhere on the remote")
    func canaries() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        for number in 0..<20 {
            try await a.keychain().add(
                SecretBytes("canary-secret-\(number)"),
                as: Self.item("canary-account-\(number)")
            )
        }
        try await a.keychain().delete(Self.query("canary-account-3"))
        try await Self.settle([a, b])
        #expect(try await b.items().count == 19)
        var files = 0
        for name in try FileManager.default.subpathsOfDirectory(atPath: fixture.share.path) {
            #expect(!name.contains("canary") && !name.contains("TEAM"))
            guard let data = FileManager.default.contents(atPath: fixture.share.appending(path: name).path) else {
                continue
            }
            files += 1
            for canary in ["canary", "TEAM", "storesync items"] {
                #expect(data.range(of: Data(canary.utf8)) == nil, "\(canary) in \(name)")
            }
        }
        #expect(files >= 8)
    }

    @Test("In an application that isn't encrypted, keychain items stay on the device, and a warning says so")
    func unencrypted() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        #expect(try await device.synchronizeKeychain().value.warnings.isEmpty)
        try await device.keychain().add(SecretBytes("1"), as: Self.item("account"))
        let result = try await device.synchronizeKeychain().value
        #expect(!result.isEncrypted && !result.hasPublished)
        #expect(result.warnings == ["org.example.notes isn't encrypted, so its keychain's items stay on this device."])
        #expect(try await device.items() == ["account": "1"])
        #expect(try await device.backend.status(of: fixture.hierarchy.keychains) == nil)
    }

    @Test("A keychain that never had a synchronizable item costs no request, and no file")
    func neverUsed() async throws {
        let fixture = try Self.fixture()
        let requests = Locked(0)
        let device = try fixture.device("device") { name in
            if !name.hasPrefix("after"), name.contains(" of ") || name.contains(" to ") {
                requests.withLock { $0 += 1 }
            }
        }
        _ = try await device.register().value
        requests.withLock { $0 = 0 }
        _ = try await device.register().value
        let registering = requests.withLock { $0 }
        #expect(registering > 0)
        // Items that aren't synchronizable cause no request either.
        for hasOwnItems in [false, true] {
            if hasOwnItems {
                try await device.keychain().add(SecretBytes("1"), as: KeychainItem(service: "s", account: "own"))
            }
            requests.withLock { $0 = 0 }
            #expect(try await !device.synchronizeKeychain().value.hasPublished)
            #expect(requests.withLock { $0 } == registering)
        }
        let state = try FileManager.default.contentsOfDirectory(
            atPath: fixture.folder.appending(path: "device/state").path
        )
        #expect(state.contains("keychains"))
        #expect(try await device.backend.status(of: fixture.hierarchy.keychains) == nil)
    }

    // MARK: Crashes

    @Test("F17 D1: A crash at any request or change of the device's memory loses no item, and the next run completes")
    func everyPoint() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        for account in ["kept", "updated", "deleted"] {
            try await a.keychain().add(SecretBytes("1"), as: Self.item(account))
        }
        try await Self.settle([a, b])
        try await a.keychain().update(Self.query("updated"), to: SecretBytes("2"))
        try await a.keychain().add(SecretBytes("2"), as: Self.item("of a"))
        try await b.keychain().delete(Self.query("deleted"))
        try await b.keychain().add(SecretBytes("2"), as: Self.item("of b"))
        _ = try await b.synchronizeKeychain().value
        let aside = fixture.folder.deletingLastPathComponent().appending(
            path: "\(fixture.folder.lastPathComponent)-aside"
        )
        try FileManager.default.copyItem(at: fixture.folder, to: aside)
        defer { try? FileManager.default.removeItem(at: aside) }
        let bomb = Bomb()
        var point = 0
        while true {
            try FileManager.default.removeItem(at: fixture.folder)
            try FileManager.default.copyItem(at: aside, to: fixture.folder)
            let dying = try fixture.device("a", hook: bomb.tick)
            bomb.arm(point)
            let result = await dying.synchronizeKeychain().result
            guard bomb.disarm() else {
                #expect(throws: Never.self) { try result.get() }
                break
            }
            // The other device finds the former items or the new ones, and loses none of its own.
            _ = try await fixture.device("b").synchronizeKeychain().value
            let found = try await fixture.device("b").items()
            #expect(found["kept"] == "1" && found["of b"] == "2" && found["deleted"] == nil, "point \(point)")
            try await Self.settle([try fixture.device("a"), try fixture.device("b")], 2)
            for name in ["a", "b"] {
                let items = try await fixture.device(name).items()
                #expect(items == ["kept": "1", "updated": "2", "of a": "2", "of b": "2"], "\(name), point \(point)")
            }
            point += 1
        }
        print("points of synchronizing a keychain: \(point)")
        #expect(point > 15)
    }

    // MARK: Untrusted storage

    /// Two devices that both know "account", which the second has changed since the first read its file.
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device
        /// The file of "b".
        let url: URL
        /// The former content of the file.
        let former: Data
        let current: Data

        init() async throws {
            fixture = try KeychainSynchronizationTests.fixture()
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            try await a.keychain().add(SecretBytes("1"), as: item("account"))
            try await a.keychain().add(SecretBytes("1"), as: item("deleted"))
            try await settle([a, b])
            url = try await KeychainSynchronizationTests.url(of: b.register().value, fixture)
            former = try Data(contentsOf: url)
            try await b.keychain().update(query("account"), to: SecretBytes("2"))
            try await b.keychain().delete(query("deleted"))
            _ = try await b.synchronizeKeychain().value
            current = try Data(contentsOf: url)
        }
    }

    @Test("Another client's file that is truncated, changed, foreign or missing causes a warning, and no item is lost")
    func badFiles() async throws {
        let scene = try await Scene()
        _ = try await scene.a.synchronizeKeychain().value
        let own = try await Data(contentsOf: Self.url(of: scene.a.register().value, scene.fixture))
        let seal = try await scene.b.register().value.seal
        let other = EpochKey(master: MasterKey(), epoch: UUID())
        let orphan = EpochKey(master: try #require(seal.key).master, epoch: UUID())
        let context = SealedContext(
            application: scene.fixture.application.rawValue,
            role: "keychain",
            client: try await scene.b.register().value.client.rawValue
        )
        var bad: [Data] = [Data(), Data("<plist>".utf8), Data(count: 5_000), own]
        for length in stride(from: 0, to: scene.current.count, by: 31) { bad.append(scene.current.prefix(length)) }
        for offset in stride(from: 0, to: scene.current.count, by: 17) {
            var changed = scene.current
            changed[offset] ^= 1 << UInt8(offset % 8)
            bad.append(changed)
        }
        // Sealed by another application, sealed in another epoch, and authentic with other content.
        for key in [other, orphan, try #require(seal.key)] { bad.append(Data(key.seal([1, 2, 3], as: context))) }
        for (number, bytes) in bad.enumerated() {
            try bytes.write(to: scene.url)
            let result = try await scene.a.synchronizeKeychain().value
            #expect(result.warnings.count == 1, "\(number)")
            let report = try await scene.a.verify().value
            #expect(
                report.problems.map(\.path) == [
                    "\(scene.fixture.hierarchy.keychains)/\(scene.url.lastPathComponent)"
                ]
            )
        }
        try FileManager.default.removeItem(at: scene.url)
        #expect(try await scene.a.synchronizeKeychain().value.warnings.count == 1)
        #expect(try await scene.a.items() == ["account": "2"])
        print("bad keychain files: \(bad.count)")
        // The client writes its file again, whatever it contains.
        try Data("<plist>".utf8).write(to: scene.url)
        let mended = try await scene.b.synchronizeKeychain().value
        #expect(mended.hasPublished && mended.warnings.count == 1)
        try await Self.settle([scene.a, scene.b])
        for device in [scene.a, scene.b] { #expect(try await device.items() == ["account": "2"]) }
    }

    @Test("A file that is far too large is refused before it fills the memory, and a directory in its place is ignored")
    func tooLarge() async throws {
        let scene = try await Scene()
        let handle = try FileHandle(forWritingTo: scene.url)
        try handle.truncate(atOffset: UInt64(KeychainFile.maximumSealedBytes) + 1)
        try handle.close()
        let warnings = try await scene.a.synchronizeKeychain().value.warnings
        #expect(warnings.count == 1 && warnings[0].contains("far too large"), "\(warnings)")
        try FileManager.default.removeItem(at: scene.url)
        try FileManager.default.createDirectory(at: scene.url, withIntermediateDirectories: false)
        #expect(try await scene.a.synchronizeKeychain().value.warnings.count == 1)
        #expect(try await scene.a.items() == ["account": "1", "deleted": "1"])
    }

    @Test("An older file of another client that is put back undoes nothing, not even after a blitz")
    func rolledBack() async throws {
        for (blitzes, ownIsGone) in [(false, false), (true, false), (true, true)] {
            let scene = try await Scene()
            _ = try await scene.a.synchronizeKeychain().value
            #expect(try await scene.a.items() == ["account": "2"])
            try scene.former.write(to: scene.url)
            if blitzes { try await scene.a.keychain().blitz(.everything) }
            if ownIsGone {
                try FileManager.default.removeItem(
                    at: try await Self.url(of: scene.a.register().value, scene.fixture)
                )
            }
            let result = try await scene.a.synchronizeKeychain().value
            #expect(result.warnings.count == 1 && result.warnings[0].contains("older"), "\(result)")
            // Its own file restores the device's items. Without that file, it waits for the other client's current one.
            #expect(try await scene.a.items() == (ownIsGone ? [:] : ["account": "2"]))
            _ = try await scene.b.synchronizeKeychain().value
            try await Self.settle([scene.a, scene.b])
            for device in [scene.a, scene.b] { #expect(try await device.items() == ["account": "2"]) }
        }
    }

    @Test("If all files are put back to a former state, every device keeps its items and publishes them again")
    func allRolledBack() async throws {
        let scene = try await Scene()
        let own = try await Self.url(of: scene.a.register().value, scene.fixture)
        let former = try Data(contentsOf: own)
        _ = try await scene.a.synchronizeKeychain().value
        try former.write(to: own)
        try scene.former.write(to: scene.url)
        _ = try await scene.a.synchronizeKeychain().value
        _ = try await scene.b.synchronizeKeychain().value
        try await Self.settle([scene.a, scene.b])
        for device in [scene.a, scene.b] { #expect(try await device.items() == ["account": "2"]) }
    }

    // MARK: One file, one writer

    @Test("A client's file that another process has written since it was read isn't replaced, and the error is busy")
    func conflict() async throws {
        let fixture = try Self.fixture()
        let memory = InMemoryBackend()
        let (a, b) = (try fixture.device("a", backend: memory), try fixture.device("b", backend: memory))
        try await b.keychain().add(SecretBytes("1"), as: Self.item("account"))
        try await Self.settle([a, b])
        let registered = try await b.register().value
        let path = registered.hierarchy.keychain(registered.client)
        let former = try #require(try await memory.bytes(at: path))
        try await b.keychain().add(SecretBytes("2"), as: Self.item("more"))
        let interposed = InterposedBackend(memory, beforeWriting: path) {
            _ = try? await memory.write(former, to: path, when: .always)
        }
        let operation = KeychainSynchronizationOperation(registered, backend: interposed, state: b.state)
        #expect(await code { try await b.supervisor.add(operation).value } == .busy)
        try await Self.settle([b, a])
        #expect(try await a.items() == ["account": "1", "more": "2"])
    }

    @Test("Of two concurrent synchronizations of one device's keychain, one succeeds and the other is busy")
    func twice() async throws {
        let fixture = try Self.fixture()
        let device = try fixture.device("device")
        try await device.keychain().add(SecretBytes("1"), as: Self.item("account"))
        let registered = try await device.register().value
        let path = registered.hierarchy.keychain(registered.client)
        let second = Locked<StoreSyncError.Code?>(nil)
        let interposed = InterposedBackend(device.backend, beforeWriting: path) {
            let operation = KeychainSynchronizationOperation(registered, backend: device.backend, state: device.state)
            let result = await device.supervisor.add(operation).result
            second.withLock { $0 = (result.failure as? StoreSyncError)?.code }
        }
        let operation = KeychainSynchronizationOperation(registered, backend: interposed, state: device.state)
        #expect(try await device.supervisor.add(operation).value.hasPublished)
        #expect(second.withLock { $0 } == .busy)
    }

    @Test("K9: An app's manager provides the keychain and synchronizes it, on each device")
    func managers() async throws {
        let fixture = try Self.fixture()
        let delegate = Asker()
        let managers = try ["laptop", "desktop"].map { name in
            ApplicationSyncManager(
                application: fixture.application,
                clientDescription: name,
                backend: LocalFolderBackend(root: fixture.share),
                state: try StateDirectory(url: fixture.folder.appending(path: name)),
                delegate: delegate
            )
        }
        let entitlements = Entitlements(applicationIdentifier: try AccessGroupPattern("TEAM.notes"))
        try await managers[0].keychain(entitlements: entitlements).add(SecretBytes("1"), as: Self.item("account"))
        #expect(await code { try await managers[1].synchronizeKeychain().value } == .applicationMissing)
        #expect(try await managers[0].synchronizeKeychain(mayCreate: true).value.hasPublished)
        #expect(try await managers[1].synchronizeKeychain().value.hasPublished)
        let found = try await managers[1].keychain(entitlements: entitlements).secret(matching: Self.query("account"))
        #expect(found == SecretBytes("1"))
        withExtendedLifetime(delegate) {}
    }

    @Test("K9: An item that only another device has is found by a query for synchronizable items, and by no other")
    func fetchedIfMissing() async throws {
        let fixture = try Self.fixture()
        let delegate = Asker()
        let devices = [try fixture.device("laptop"), try fixture.device("desktop")]
        let managers = devices.map { $0.manager(delegate) }
        let entitlements = Entitlements(applicationIdentifier: try AccessGroupPattern("TEAM.notes"))
        for manager in managers { _ = try await manager.synchronizeKeychain(mayCreate: true).value }
        try await managers[0].keychain(entitlements: entitlements).add(SecretBytes("1"), as: Self.item("account"))
        _ = try await managers[0].synchronizeKeychain().value
        var query = Self.query("account")
        for synchronizable in [KeychainQuery.Synchronizable.yes, .any] {
            query.synchronizable = synchronizable
            let matches = try await managers[1].copyMatching(query, entitlements: entitlements)
            #expect(matches.map(\.secret) == [SecretBytes("1")])
            // The second query finds it without the storage.
            try? FileManager.default.removeItem(at: fixture.share)
        }
        query.synchronizable = .absent
        let error = await #expect(throws: KeychainError.self) {
            try await managers[1].copyMatching(query, entitlements: entitlements)
        }
        #expect(error?.code == .itemNotFound)
        withExtendedLifetime(delegate) {}
    }
}

/// Ends an operation at a chosen step, as a crash would.
private final class Bomb: Sendable {
    struct Death: Error {}

    private let left = Locked<Int?>(nil)

    /// Called at every step.
    var tick: @Sendable (String) throws -> Void {
        { [left] _ in
            try left.withLock { left in
                guard let steps = left else { return }
                left = steps - 1
                if steps <= 0 { throw Death() }
            }
        }
    }

    func arm(_ steps: Int) { left.withLock { $0 = steps } }

    /// Disarms it, and returns whether it went off.
    @discardableResult
    func disarm() -> Bool {
        left.withLock { left in
            defer { left = nil }
            return (left ?? 0) < 0
        }
    }
}

/// Runs a closure before a file is written, once.
private actor InterposedBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private let path: RemotePath
    private var body: (@Sendable () async -> Void)?

    init(_ base: any RemoteBackend, beforeWriting path: RemotePath, _ body: @escaping @Sendable () async -> Void) {
        self.base = base
        self.path = path
        self.body = body
    }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        if path == self.path, let body = body.take() { await body() }
        return try await base.write(content, to: path, when: condition)
    }
}

/// Returns the beginning of a replaced file, in the length of the former file, to the first reader.
private actor MixingBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private var lengths: [RemotePath: Int] = [:]
    /// The number of mixed reads.
    private(set) var mixtures = 0

    init(_ base: any RemoteBackend) { self.base = base }

    func capabilities() async throws -> RemoteCapabilities {
        try await base.capabilities().subtracting(.consistentRead)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        guard range == nil, let bytes = try await base.bytes(at: path) else {
            return try await base.read(path, range: range)
        }
        let former = lengths.updateValue(bytes.count, forKey: path) ?? bytes.count
        if former < bytes.count { mixtures += 1 }
        return RemoteContent(Array(bytes.prefix(former)))
    }
}

/// A storage that fills every empty file with 8 MiB, and counts how much of these contents is read at the same time.
private actor FillingBackend: InterceptingBackend {
    static let byteCount: Int64 = 8 << 20
    nonisolated let base: any RemoteBackend
    private var listed: Int64?
    private var bytes: [String: Int64] = [:]
    private(set) var maximumBytesAtOnce: Int64 = 0

    init(_ base: any RemoteBackend) { self.base = base }

    func fill(listed: Int64) {
        (self.listed, maximumBytesAtOnce) = (listed, 0)
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try await base.list(directory)?.map { item in
            guard item.kind == .file, item.size == 0, let listed else { return item }
            var item = item
            item.size = listed
            return item
        }
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        guard listed != nil, try await base.status(of: path)?.size == 0 else {
            return try await base.read(path, range: range)
        }
        let chunk = [UInt8](repeating: 7, count: 64 << 10)
        return RemoteContent(length: nil) {
            var rest = Self.byteCount
            return {
                rest -= Int64(chunk.count)
                return await self.wasRead(rest >= 0 ? Int64(chunk.count) : nil, of: path) ? chunk : nil
            }
        }
    }

    /// Counts a chunk; without one, the content has ended.
    private func wasRead(_ count: Int64?, of path: RemotePath) -> Bool {
        bytes["\(path)"] = count.map { bytes["\(path)", default: 0] + $0 }
        maximumBytesAtOnce = max(maximumBytesAtOnce, bytes.values.reduce(0, +))
        return count != nil
    }
}

extension Result {
    fileprivate var failure: Failure? {
        guard case .failure(let error) = self else { return nil }
        return error
    }
}
