import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync
@testable import SyncCryptography

@Suite("An application that gets the registration of another one with the same password", .timeLimit(.minutes(60)))
struct ExchangedRegistrationTests {
    private static let password = "correct horse"

    private let fixture: Fixture
    private let other: Fixture

    init() throws {
        fixture = try Fixture(application: "org.example.notes", password: Self.password)
        other = try Fixture(application: "org.example.other", password: Self.password)
    }

    /// Copies a file of the other application.
    private func copy(_ file: (ApplicationHierarchy) -> RemotePath) throws {
        let bytes = try Data(contentsOf: other.url(file(other.hierarchy)))
        try fixture.put(bytes, at: "\(file(fixture.hierarchy))")
    }

    @Test("A new device refuses a registration and a key file of another application, and writes nothing")
    func exchanged() async throws {
        _ = try await fixture.device("first").register().value
        _ = try await other.device("first").register().value
        try copy(\.registration)
        try copy(\.passwordTest)
        let before = try fixture.files()
        let error = await #expect(throws: StoreSyncError.self) { try await fixture.device("new").register().value }
        #expect(error?.code == .tampered && error?.message.contains("org.example.other") == true, "\(error as Any)")
        #expect(try fixture.files() == before)
    }

    @Test("A registration of another application isn't completed with new keys")
    func completed() async throws {
        _ = try await other.device("first").register().value
        try copy(\.registration)
        let before = try fixture.files()
        #expect(await code { try await fixture.device("new").register().value } == .tampered)
        #expect(try fixture.files() == before)
    }

    @Test("An application whose registration names none, as earlier versions wrote it, is joined")
    func earlierVersion() async throws {
        let first = try fixture.device("first")
        let written = try await first.register().value.hierarchy.registration
        var info = try RegistrationInfo(Array(Data(contentsOf: fixture.url(written))), at: written)
        #expect(info.application == "org.example.notes")
        info.application = nil
        let master = try #require(try await first.register().value.seal.key?.master)
        let keyFile = try await KeyFile.create(
            wrapping: master,
            with: try Password.cheap(Self.password),
            epoch: try #require(UUID(uuidString: info.epoch)),
            registration: info.xml,
            parameters: .interactive
        )
        try fixture.put(Data(info.xml), at: "\(written)")
        try fixture.put(Data(keyFile.bytes), at: "\(fixture.hierarchy.passwordTest)")
        #expect(try await !fixture.device("new").register().value.didCreateApplication)
    }
}
