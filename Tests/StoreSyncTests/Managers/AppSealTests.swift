import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Files that an app seals with a registration", .timeLimit(.minutes(60)))
struct AppSealTests {
    private let content = Array("the app's settings".utf8)

    @Test("P15: Every device of the application opens a sealed file by its name, and by no other")
    func roundTrip() async throws {
        let fixture = try Fixture(password: "correct horse")
        let first = try await fixture.device("first").register().value
        let second = try await fixture.device("second").register().value
        let sealed = first.seal(content, as: "settings")
        #expect(sealed != content)
        #expect(try second.open(sealed, as: "settings") == content)
        for name in ["", "Settings", "settings ", "app settings", "deviceInfo"] {
            #expect(throws: StoreSyncError.self) { try second.open(sealed, as: name) }
        }
        var changed = sealed
        changed[changed.count - 1] ^= 1
        for damaged in [changed, Array(sealed.dropLast()), sealed + [0], content, []] {
            let error = #expect(throws: StoreSyncError.self) { try second.open(damaged, as: "settings") }
            #expect(error?.code == .tampered || error?.code == .corrupt, "\(error?.code.description ?? "")")
            #expect(error?.message.contains("settings") == true)
        }
        #expect(throws: StoreSyncError.self) { try second.open(sealed, as: "settings", upTo: 3) }
    }

    @Test("An app's file can't be passed off as one of the module's, nor the reverse, whatever the app's name for it")
    func notOurs() async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("device")
        let registration = try await device.register().value
        let (seal, client) = (registration.seal, registration.client)
        let path = registration.hierarchy.deviceInfo(client)
        let info = try #require(try await device.backend.smallFile(at: path))
        for name in ["deviceInfo", "", "\(client)", "deviceInfo\0\(client)"] {
            let sealed = registration.seal(content, as: name)
            #expect(throws: StoreSyncError.self) { try seal.open(sealed, as: .deviceInfo(client), at: path) }
            #expect(throws: StoreSyncError.self) { try registration.open(info, as: name) }
        }
        // On the remote, another device notices the exchange.
        let sealed = registration.seal(try seal.open(info, as: .deviceInfo(client), at: path), as: "deviceInfo")
        try await device.backend.write(RemoteContent(sealed), to: path, when: .always)
        let problems = try await device.verify().value.problems
        #expect(problems.map(\.path) == ["\(path)"] && problems.map(\.code) == ["tampered"], "\(problems)")
    }

    @Test("A file of a document opens in no other document, and in none that was created again under its name")
    func documents() async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("device")
        let registration = try await device.registerDocument().value
        let sealed = registration.seal(content, as: "thumbnail")
        #expect(try registration.open(sealed, as: "thumbnail") == content)
        #expect(throws: StoreSyncError.self) { try registration.application.open(sealed, as: "thumbnail") }
        let plain = registration.application.seal(content, as: "thumbnail")
        #expect(throws: StoreSyncError.self) { try registration.open(plain, as: "thumbnail") }
        _ = try await device.removeDocument().value
        let again = try await device.registerDocument(recreates: true).value
        #expect(again.didCreateDocument)
        let error = #expect(throws: StoreSyncError.self) { try again.open(sealed, as: "thumbnail") }
        #expect(error?.code == .tampered)
    }

    @Test("In an unencrypted application the bytes stay as they are")
    func unencrypted() async throws {
        let fixture = try Fixture()
        let registration = try await fixture.device("device").registerDocument().value
        #expect(registration.seal(content, as: "settings") == content)
        #expect(try registration.application.open(content, as: "settings") == content)
    }
}
