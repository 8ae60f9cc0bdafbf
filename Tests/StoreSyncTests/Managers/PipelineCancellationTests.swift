import Foundation
import GRDB
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

/// A delegate that doesn't answer before its task is cancelled.
@MainActor private final class PendingDelegate: ApplicationSyncDelegate {
    /// Yields a value when the delegate is asked.
    nonisolated let (asked, ask) = AsyncStream.makeStream(of: Void.self)
    nonisolated let wasCancelled = Locked(false)

    nonisolated init() {}

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        let (answers, answer) = AsyncStream.makeStream(of: Never.self)
        ask.yield()
        for await _ in answers {}
        withExtendedLifetime(answer) {}
        wasCancelled.withLock { $0 = Task.isCancelled }
        throw CancellationError()
    }

    /// Returns once the delegate has been asked.
    nonisolated func waitUntilAsked() async { for await _ in asked { return } }
}

@Suite("Ending a manager's pipeline before its last operation", .timeLimit(.minutes(60)))
struct PipelineCancellationTests {
    /// A method that registers first.
    struct Pipeline: Sendable, CustomTestStringConvertible {
        var name: String
        var add: @Sendable (ApplicationSyncManager, Device) -> any OperationReference

        var testDescription: String { name }
    }

    static let pipelines: [Pipeline] = [
        Pipeline(name: "uploading") { $0.document($1.document).upload(storeAt: $1.store) },
        Pipeline(name: "downloading") { $0.document($1.document).download(WholeStoreDownloadRequest(url: $1.store)) },
        Pipeline(name: "synchronizing") { $0.document($1.document).synchronize(SynchronizationRequest(url: $1.store)) },
        Pipeline(name: "vacuuming") { $0.document($1.document).vacuum() },
        Pipeline(name: "registering") { $0.document($1.document).register() },
        Pipeline(name: "synchronizing the keychain") { manager, _ in manager.synchronizeKeychain() },
    ]

    /// A device that doesn't know the application, which is encrypted.
    private static func device(_ fixture: Fixture) async throws -> Device {
        let delegate = await AppDelegate(try .cheap("correct horse"))
        _ = try await fixture.device("first").manager(delegate).register().value
        let device = try fixture.device("second")
        try await DatabaseQueue(path: device.store.path).write {
            try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        }
        return device
    }

    @Test("It cancels the registrations, and with them the question to the delegate", arguments: pipelines)
    func cancelsSteps(_ pipeline: Pipeline) async throws {
        let fixture = try Fixture()
        let device = try await Self.device(fixture)
        let delegate = PendingDelegate()
        let manager = device.manager(delegate)
        let handle = pipeline.add(manager, device)
        await delegate.waitUntilAsked()
        handle.cancel()
        let activity = manager.activity
        try #require(activity.allSatisfy { $0.isCancellationRequested }, "\(activity.map(\.name))")
        try await manager.supervisor.drain()
        #expect(handle.isCancelled)
        #expect(delegate.wasCancelled.withLock { $0 })
        #expect(manager.activity.isEmpty)
    }

    @Test("A query for a keychain item that is cancelled cancels the synchronization that it has started")
    func cancelledQuery() async throws {
        let fixture = try Fixture()
        let device = try await Self.device(fixture)
        let delegate = PendingDelegate()
        let manager = device.manager(delegate)
        let entitlements = Entitlements(applicationIdentifier: try AccessGroupPattern("TEAM.notes"))
        let query = Task {
            try await manager.copyMatching(KeychainQuery(synchronizable: .yes), entitlements: entitlements)
        }
        await delegate.waitUntilAsked()
        query.cancel()
        await #expect(throws: CancellationError.self) { try await query.value }
        let activity = manager.activity
        try #require(activity.allSatisfy { $0.isCancellationRequested }, "\(activity.map(\.name))")
        try await manager.supervisor.drain()
        #expect(delegate.wasCancelled.withLock { $0 })
    }

    @Test("If the supervisor has no room for the last operation, the registrations do nothing", arguments: pipelines)
    func noRoom(_ pipeline: Pipeline) async throws {
        for capacity in 1...4 {
            let fixture = try Fixture()
            let device = try fixture.device("device")
            try await DatabaseQueue(path: device.store.path).write {
                try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
            }
            let supervisor = OperationSupervisor(.init(isSuspended: true, capacity: capacity))
            let delegate = await AppDelegate(try .cheap("correct horse"))
            let handle = pipeline.add(device.manager(delegate, on: supervisor), device)
            let isRefused = handle.state.isEnded
            #expect(isRefused || capacity > 1)
            supervisor.isSuspended = false
            try await supervisor.drain()
            #expect(try !isRefused || fixture.files().isEmpty, "with room for \(capacity)")
        }
    }

    @Test("It doesn't cancel a registration that the caller added")
    func keepsCallersRegistration() async throws {
        let fixture = try Fixture()
        let device = try await Self.device(fixture)
        let delegate = PendingDelegate()
        let manager = device.manager(delegate)
        let notes = manager.document(fixture.document)
        let registration = manager.register()
        let upload = notes.upload(WholeStoreUploadRequest(url: device.store), registeredBy: registration)
        let export = manager.supervisor.add(after: [registration.ending]) { _ in }
        let synchronization = notes.synchronize(SynchronizationRequest(url: device.store), after: [export])
        await delegate.waitUntilAsked()
        upload.cancel()
        synchronization.cancel()
        #expect(!registration.isCancellationRequested)
        #expect(!export.isCancellationRequested)
        #expect(manager.activity.map(\.id) == [registration.id])
        registration.cancel()
        try await manager.supervisor.drain()
        #expect(delegate.wasCancelled.withLock { $0 })
    }
}
