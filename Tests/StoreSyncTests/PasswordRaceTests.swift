import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Several devices that change the password at the same time", .timeLimit(.minutes(60)))
struct PasswordRaceTests {
    /// Two registered devices of an encrypted application in a folder, which replaces no file conditionally.
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device

        init() async throws {
            fixture = try Fixture(password: "correct horse")
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            _ = try await a.register().value
            _ = try await b.register().value
        }

        /// The names of the claims on the remote.
        func claims() throws -> [String] { try fixture.files().keys.filter { $0.contains("Encryption/password-") } }

        /// Whether a new device registers with a password.
        func isValid(_ text: String) async throws -> Bool {
            var device = try fixture.device("new \(UUID().uuidString)")
            device.password = try Password.cheap(text)
            do {
                _ = try await device.register().value
                return true
            } catch let error as StoreSyncError where error.code == .wrongPassword {
                return false
            }
        }
    }

    /// The error's message, or `nil` if there is no error.
    private func message(_ body: () async throws -> Int) async -> String? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? StoreSyncError)?.message
        }
    }

    @Test("One of them succeeds, and its password is valid; the other one writes nothing")
    func race() async throws {
        let scene = try await Scene()
        let dying = DyingBackend(scene.a.backend)
        let refusal = Locked<String?>(nil)
        await dying.meet(at: { $0 == "write of \(scene.fixture.hierarchy.passwordTest)" }) {
            let message = await message { try await scene.b.changePassword(to: "of b") }
            refusal.withLock { $0 = message }
        }
        #expect(try await scene.a.changePassword(to: "of a", through: dying) == 2)
        let client = try #require(
            try scene.a.state.peekClientIdentifier(for: ApplicationKey(dying, scene.a.application))
        )
        let words = "Client \(client) is changing the password"
        #expect(refusal.withLock { $0 }?.contains(words) == true, "\(refusal.withLock { $0 } as Any)")
        #expect(try await scene.isValid("of a"))
        #expect(try await !scene.isValid("of b"))
        #expect(try scene.claims().isEmpty)
        #expect(try await scene.b.changePassword(to: "of b") == 3)
        #expect(try await scene.isValid("of b"))
    }

    @Test(
        "A device that dies in a change changes the password again, and another device does too, or says what to remove",
        arguments: [false, true]
    )
    func death(isOtherNext: Bool) async throws {
        let living = try await Scene()
        let counting = DyingBackend(living.a.backend)
        await counting.die(nil)
        _ = try await living.a.changePassword(to: "first", through: counting)
        let names = await counting.requests.map(\.name)
        let first = try #require(names.firstIndex { $0.contains("write of") && $0.contains("Encryption/password-") })
        var refusals = 0
        for request in first..<names.count {
            for isAfter in [false, true] {
                let comment: Comment = "\(isAfter ? "after" : "before") \(names[request])"
                let scene = try await Scene()
                let dying = DyingBackend(scene.a.backend)
                await dying.die(.init(request: request, isAfter: isAfter))
                _ = await message { try await scene.a.changePassword(to: "first", through: dying) }
                #expect(await dying.isDead, comment)
                let next = isOtherNext ? scene.b : scene.a
                if let message = await message({ try await next.changePassword(to: "second") }) {
                    #expect(isOtherNext, "\(comment): \(message)")
                    let claim = try #require(try scene.claims().first)
                    #expect(message.contains("remove \(claim) from the remote"), "\(comment): \(message)")
                    try scene.fixture.put(nil, at: claim)
                    refusals += 1
                    _ = try await next.changePassword(to: "second")
                }
                #expect(try await scene.isValid("second"), comment)
                let report = try await next.verify(repairs: true).value
                #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(comment): \(report)")
                #expect(try scene.claims().isEmpty, comment)
            }
        }
        #expect((refusals > 0) == isOtherNext)
    }

    @Test("A device that isn't registered and dies after its claim changes the password again")
    func unregistered() async throws {
        let scene = try await Scene()
        let device = try scene.fixture.device("unregistered")
        let dying = DyingBackend(device.backend)
        await dying.meet(at: { $0.contains("write of") && $0.contains("Encryption/password-") }) {
            // The next request after this one.
            await dying.die(.init(request: 0, isAfter: false))
        }
        _ = await message { try await device.changePassword(to: "first", through: dying) }
        #expect(try scene.claims().count == 1)
        #expect(try await device.changePassword(to: "second") == 2)
        #expect(try await scene.isValid("second"))
        #expect(try scene.claims().isEmpty)
    }

    @Test("Two changes by one device at the same time don't rely on the same claim")
    func oneDevice() async throws {
        let scene = try await Scene()
        let dying = DyingBackend(scene.a.backend)
        let again = try scene.fixture.device("a")
        let codes = Locked<[StoreSyncError.Code?]>([])
        await dying.meet(at: { $0 == "write of \(scene.fixture.hierarchy.passwordTest)" }) {
            let code = await code { try await again.changePassword(to: "second") }
            codes.withLock { $0.append(code) }
        }
        #expect(try await scene.a.changePassword(to: "first", through: dying) == 2)
        #expect(codes.withLock { $0 } == [.busy])
        #expect(try await scene.isValid("first"))
    }

    @Test(
        "A key file that is read before another operation of this device changes it isn't taken for an older one",
        arguments: ["change", "documents", "status", "verification"]
    )
    func changedMeanwhile(work: String) async throws {
        let scene = try await Scene()
        let path = scene.fixture.hierarchy.passwordTest
        let file = Array(try #require(try scene.fixture.files()["\(path)"]))
        // Another process of the same device.
        let again = try scene.fixture.device("a")
        let overtaken = OvertakenBackend(scene.fixture.remote, reading: path, as: file) {
            await #expect(throws: Never.self) { _ = try await again.changePassword(to: "new") }
        }
        let device = scene.a.with(backend: overtaken)
        switch work {
        case "change": #expect(await code { try await device.changePassword(to: "other") } == .busy)
        case "documents": _ = try await device.listDocuments().value
        case "status": #expect(try await device.status().value.encryption?.passwordVersion == 1)
        default: #expect(try await device.verify().value.problems == [])
        }
        #expect(try await scene.isValid("new"))
    }

    @Test("In a folder that a program replicates, a device whose password was overwritten is told once")
    func replicated() async throws {
        let scene = try await Scene()
        let words = "The other device's password is the valid one."
        let before = try scene.fixture.files()
        #expect(try await scene.a.changePassword(to: "of a") == 2)
        try scene.fixture.restore(before)
        #expect(try await scene.b.changePassword(to: "of b") == 2)
        #expect(try await scene.a.verify().value.warnings.contains { $0.contains(words) })
        for isTold in [true, false] {
            let warnings = try await scene.a.register().value.warnings
            #expect(warnings.contains { $0.contains(words) } == isTold, "\(warnings)")
        }
        #expect(try await scene.b.register().value.warnings.isEmpty)
        #expect(try await scene.a.verify().value.warnings.isEmpty)
    }
}
