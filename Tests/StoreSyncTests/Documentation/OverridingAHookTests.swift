import Foundation
import Operations
import RemoteStorage
import RemoteStorageTesting
import StoreSync
import SyncCryptography
import Testing

// The code between the marks is also in the documentation.

/// A server that creates several directories with one request.
actor TeamServer: InterceptingBackend {
    nonisolated let base: any RemoteBackend = InMemoryBackend()
    private(set) var batches: [[RemotePath]] = []

    func createDirectories(at paths: [RemotePath]) async throws {
        batches.append(paths)
        for path in paths { try await base.createDirectory(at: path) }
    }
}

// DOC: server
extension TeamServer: ApplicationRegistrationHooks {
    nonisolated var backend: any RemoteBackend { self }

    /// Creates all directories with one request.
    func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws {
        try await createDirectories(at: hierarchy.directories)
    }
}
// DOC: end

// DOC: wrapper
/// Tells the user's other devices about every upload that this device publishes.
actor NotifyingBackend: ForwardingBackend, WholeStoreUploadHooks {
    nonisolated let base: any RemoteBackend
    nonisolated var backend: any RemoteBackend { self }
    private let notify: @Sendable (_ manifest: RemotePath) async -> Void

    init(_ base: any RemoteBackend, notify: @escaping @Sendable (_ manifest: RemotePath) async -> Void) {
        self.base = base
        self.notify = notify
    }

    func publishManifest(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool {
        let hooks = base as? any WholeStoreUploadHooks ?? DefaultHooks(backend: base)
        let isPublished = try await hooks.publishManifest(bytes, at: path)
        if isPublished { await notify(path) }
        return isPublished
    }
}
// DOC: end

/// The messages that were sent.
private actor Messages {
    private(set) var sent: [String] = []

    func send(_ text: String) { sent.append(text) }
}

@Suite("Overriding a hook", .timeLimit(.minutes(60)))
struct OverridingAHookTests {
    @Test("A server's own hook is called in place of the default, and the application is complete")
    func server() async throws {
        let fixture = try Fixture()
        let server = TeamServer()
        let device = try fixture.device("laptop", backend: server)
        _ = try await device.register().value
        let batches = await server.batches
        #expect(batches.map(\.count) == [7])
        #expect(try await device.verify().value.problems.isEmpty)
    }

    @Test("A hook of a wrapped backend is called once for each upload that is published")
    func wrapper() async throws {
        let fixture = try Fixture()
        let (share, messages) = (fixture.share, Messages())
        // DOC: use
        let backend = NotifyingBackend(LocalFolderBackend(root: share)) { manifest in
            await messages.send("\(manifest) is published")
        }
        // DOC: end
        let device = try fixture.device("laptop", backend: backend)
        try device.write("one")
        for _ in 1...2 { _ = try await device.push().value }
        try device.write("two")
        let upload = try await device.push().value
        let sent = await messages.sent
        #expect(sent.count == 2)
        #expect(sent.allSatisfy { $0.contains("/\(upload.client)/manifest-") }, "\(sent)")
    }

    @Test("R36: An app gets the salt of a registered application from the hook that fetches it; before, there is none")
    func salt() async throws {
        let fixture = try Fixture(password: "correct horse")
        let backend = InMemoryBackend()
        let (hooks, hierarchy) = (DefaultHooks(backend: backend), ApplicationHierarchy(fixture.application))
        #expect(try await hooks.fetchSalt(hierarchy) == nil)
        _ = try await fixture.device("laptop", backend: backend).register().value
        let salt = try SaltFile(try #require(try await hooks.fetchSalt(hierarchy))).salt
        #expect(try KeyFile(try #require(try await hooks.fetchPasswordTest(hierarchy))).salt == salt)

        let (unencrypted, other) = (try Fixture(), InMemoryBackend())
        _ = try await unencrypted.device("laptop", backend: other).register().value
        #expect(try await DefaultHooks(backend: other).fetchSalt(ApplicationHierarchy(unencrypted.application)) == nil)
    }

    // DOC: suite
    @Test("A backend with a hook keeps every promise", arguments: BackendCheck.all)
    func keepsItsPromises(check: BackendCheck) async throws {
        try await check.run(on: NotifyingBackend(InMemoryBackend()) { _ in })
    }
    // DOC: end
}
