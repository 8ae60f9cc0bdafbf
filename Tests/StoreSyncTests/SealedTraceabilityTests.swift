import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Encryption of an application, as TICoreDataSync describes it", .timeLimit(.minutes(60)))
struct SealedTraceabilityTests {
    private static let password = "correct horse"

    @Test(
        "R7–R9, R24, R25, H19, H20: The first client saves the salt and a file that only the password opens",
        arguments: [true, false]
    )
    func firstClient(movesDirectories: Bool) async throws {
        let capabilities: RemoteCapabilities = movesDirectories ? .all : .all.subtracting(.exclusiveDirectoryMove)
        var salts: Set<[UInt8]> = []
        for _ in 0..<2 {
            let fixture = try Fixture(password: Self.password)
            let (backend, hierarchy) = (InMemoryBackend(capabilities: capabilities), fixture.hierarchy)
            let hooks = DefaultHooks(backend: backend)
            #expect(try await hooks.fetchSalt(hierarchy) == nil)
            let registration = try await fixture.device("device", backend: backend).register().value
            let names = try await backend.list(hierarchy.encryption)?.map(\.name).sorted()
            #expect(names == ["salt.ticdsync", "test.ticdsync"])
            let salt = try SaltFile(try #require(try await hooks.fetchSalt(hierarchy)))
            let test = try KeyFile(try #require(try await hooks.fetchPasswordTest(hierarchy)))
            #expect(salt.salt == test.salt && salt.salt.count == 16 && salt.epoch == test.epoch)
            salts.insert(salt.salt)
            #expect(try await test.open(with: .cheap(Self.password)) == registration.seal.key?.master)
            let error = await #expect(throws: CryptographyError.self) { try await test.open(with: .cheap("wrong")) }
            #expect(error?.code == .wrongPassword)
        }
        #expect(salts.count == 2)
    }

    @Test("R13–R15, R22, R26, R35, P14: A device is asked for the password once, and proves it with the saved file")
    func secondClient() async throws {
        let fixture = try Fixture(password: Self.password)
        let backend = RecordingBackend()
        let first = try await fixture.device("first", backend: backend).register().value
        await backend.forget()
        let device = try fixture.device("second", backend: backend)
        let questions = Locked<[EncryptionQuestion]>([])
        for _ in 1...2 {
            let registration = device.registration { question in
                questions.withLock { $0.append(question) }
                return .encrypted(try .cheap(Self.password))
            }
            let registered = try await device.supervisor.add(registration).value
            #expect(registered.isEncrypted && registered.seal == first.seal)
        }
        #expect(questions.withLock { $0 } == [.joiningEncrypted(passwordWasWrong: false)])
        let calls = await backend.calls
        #expect(calls.contains(.saltFileExists) && calls.contains(.fetchPasswordTest))
        #expect(!calls.contains(.saveSalt) && !calls.contains(.createPasswordTest))
    }

    @Test("R23: A salt without a registration is fetched, and its content or the hook's error decides what is reported")
    func saltAlone() async throws {
        let fixture = try Fixture(password: Self.password)
        let (backend, hierarchy) = (RecordingBackend(), fixture.hierarchy)
        _ = try await fixture.device("first", backend: backend).register().value
        try await backend.remove(hierarchy.registration)
        let device = try fixture.device("second", backend: backend)
        await backend.forget()
        #expect(await code { try await device.register().value } == .applicationIncomplete)
        #expect(await backend.calls.contains(.fetchSalt))
        await backend.failOnce(.fetchSalt)
        #expect(await code { try await device.register().value } == .remoteUnavailable)
        try await backend.write(Array("another program's salt".utf8), to: hierarchy.salt, when: .always)
        #expect(await code { try await device.register().value } == .unsupportedFormat)
    }

    @Test("R11, R12, P14: An application without a salt is joined without encryption")
    func noSalt() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("second")
        _ = try await fixture.device("first").register().value
        let questions = Locked<[EncryptionQuestion]>([])
        let registration = device.registration { question in
            questions.withLock { $0.append(question) }
            return .unencrypted
        }
        let registered = try await device.supervisor.add(registration).value
        #expect(!registered.isEncrypted)
        #expect(questions.withLock { $0 } == [.joiningUnencrypted])
        let path = registered.hierarchy.deviceInfo(registered.client)
        let info = try #require(try await device.backend.smallFile(at: path))
        #expect(try DeviceInfo(info, at: path).description == "second")
        #expect(try await device.backend.list(registered.hierarchy.encryption) == [])
    }

    @Test(
        "R16, R17, R27, R37: Whether the client's directory exists decides whether it's created",
        arguments: [false, true]
    )
    func clientDirectory(isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? Self.password : nil)
        let backend = RecordingBackend()
        let device = try fixture.device("device", backend: backend)
        let registered = try await device.register().value
        for exists in [true, false] {
            if !exists { try await backend.remove(registered.hierarchy.clientDirectory(registered.client)) }
            await backend.forget()
            #expect(try await device.register().value.client == registered.client)
            let calls = await backend.calls
            #expect(calls.contains(.fetchDeviceInfo))
            #expect(calls.contains(.createClientDeviceDirectory) == !exists)
            #expect(calls.contains(.saveDeviceInfo) == !exists)
        }
    }

    @Test("P16: A whole store is compressed for its transfer where it's sealed and becomes smaller, not elsewhere")
    func compression() async throws {
        var generator = SystemRandomNumberGenerator()
        let random = Data((0..<1 << 20).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
        for isSealed in [true, false] {
            for content in [Data(repeating: 7, count: 1 << 20), random] {
                let fixture = try Fixture(password: isSealed ? Self.password : nil)
                let (first, second) = (try fixture.device("first"), try fixture.device("second"))
                try content.write(to: first.store)
                let upload = try await first.push().value
                let isSmaller = upload.storedBytes < upload.bytes / 4
                #expect(isSmaller == (isSealed && content != random), "\(upload.storedBytes)")
                #expect(upload.storedBytes < upload.bytes + 64 << 10)
                _ = try await second.pull().value
                #expect(try Data(contentsOf: second.store) == content)
            }
        }
    }

    @Test("P16: A store is compressed as hard as the app asks, and other devices read it whatever the choice")
    func compressionOfAChoice() async throws {
        // Repetitions at a distance, which a harder search finds.
        let words = (0..<400).map { "\($0 &* 2_654_435_761 % 1_000_003)" }
        let content = Data((0..<400_000).map { words[$0 &* $0 % 397] }.joined(separator: " ").utf8.prefix(1 << 20))
        let fixture = try Fixture(password: Self.password)
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        var sizes: [StoreCompression: Int64] = [:]
        for compression in StoreCompression.allCases {
            try content.write(to: first.store)
            sizes[compression] = try await first.push(whole: true, compression: compression).value.storedBytes
            _ = try await second.pull().value
            #expect(try Data(contentsOf: second.store) == content)
        }
        #expect(try #require(sizes[.off]) > content.count)
        let (fast, strong) = (try #require(sizes[.fast]), try #require(sizes[.strong]))
        let automatic = try #require(sizes[.automatic])
        #expect(strong < fast && strong <= automatic && automatic <= fast + 1 << 10, "\(sizes)")
    }
}
