import Foundation
import Operations
import RemoteStorage
import RemoteStorageTesting
import StoreSync
import Testing

// The code between the marks is also in the documentation.

/// A server that creates several directories with one request.
actor TeamServer: ForwardingBackend {
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

// DOC: defaults
/// The default hooks of uploads, on the file requests of any backend.
struct DefaultUploadHooks: WholeStoreUploadHooks {
    let backend: any RemoteBackend
}
// DOC: end

// DOC: wrapper
/// Tells the user's other devices about every upload that this device publishes.
actor NotifyingBackend: RemoteBackend, WholeStoreUploadHooks {
    nonisolated let identity: String
    nonisolated var backend: any RemoteBackend { self }
    private let base: any RemoteBackend
    private let notify: @Sendable (_ manifest: RemotePath) async -> Void

    init(_ base: any RemoteBackend, notify: @escaping @Sendable (_ manifest: RemotePath) async -> Void) {
        self.base = base
        self.notify = notify
        identity = base.identity
    }

    // The hook that is overridden.

    func publishManifest(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool {
        let hooks: any WholeStoreUploadHooks =
            base as? any WholeStoreUploadHooks ?? DefaultUploadHooks(backend: base)
        let isPublished = try await hooks.publishManifest(bytes, at: path)
        if isPublished { await notify(path) }
        return isPublished
    }

    // All file requests are forwarded.

    func capabilities() async throws -> RemoteCapabilities { try await base.capabilities() }

    func knownCapabilities() async throws -> RemoteCapabilities? { try await base.knownCapabilities() }

    func status(of path: RemotePath) async throws -> RemoteItem? { try await base.status(of: path) }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? { try await base.list(directory) }

    func createDirectory(at path: RemotePath) async throws { try await base.createDirectory(at: path) }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await base.read(path, range: range)
    }

    func write(_ content: RemoteContent, to path: RemotePath, when condition: WriteCondition) async throws -> RemoteItem
    {
        try await base.write(content, to: path, when: condition)
    }

    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await base.resumeWrite(to: path, when: condition, receipts: receipts, rest)
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await base.copy(source, to: destination, when: condition)
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await base.move(source, to: destination)
    }

    func remove(_ path: RemotePath) async throws { try await base.remove(path) }
}
// DOC: end

/// The messages that were sent.
private actor Messages {
    private(set) var sent: [String] = []

    func send(_ text: String) { sent.append(text) }
}

@Suite("Overriding a hook", .timeLimit(.minutes(60)))
struct OverridingAHookTests {
    @Test("a server's own hook is called in place of the default, and the application is complete")
    func server() async throws {
        let fixture = try Fixture()
        let server = TeamServer()
        let device = try fixture.device("laptop", backend: server)
        _ = try await device.register().value
        let batches = await server.batches
        #expect(batches.map(\.count) == [7])
        #expect(try await device.verify().value.problems.isEmpty)
    }

    @Test("a hook of a wrapped backend is called once for each upload that is published")
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

    // DOC: suite
    @Test("A backend with a hook keeps every promise", arguments: BackendCheck.all)
    func keepsItsPromises(check: BackendCheck) async throws {
        try await check.run(on: NotifyingBackend(InMemoryBackend()) { _ in })
    }
    // DOC: end
}
