import Foundation
import GRDB
import Operations
import RemoteStorage
import ServerFixtures
import Testing
import ThreadSupport

@testable import StoreSync

/// A storage that fails some requests, as the test says.
private actor FailingBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private var failures: [RemoteError.Code]

    init(_ base: any RemoteBackend, _ failures: [RemoteError.Code]) {
        self.base = base
        self.failures = failures
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        if !failures.isEmpty { throw RemoteError(failures.removeFirst(), "The storage fails for a test.") }
        return try await base.list(directory)
    }
}

private struct Refused: Error {}

@Suite("The options of the managers' operations", .timeLimit(.minutes(60)))
struct ManagerOptionsTests {
    /// Calls every method that adds operations.
    private static func addAll(
        _ manager: ApplicationSyncManager,
        _ fixture: Fixture,
        after dependencies: [any OperationReference],
        _ options: OperationOptions
    ) throws -> [any OperationReference] {
        let (notes, store) = (manager.document(fixture.document), fixture.folder.appending(path: "store.sqlite"))
        let client = try RemoteIdentifier("another")
        return [
            manager.register(after: dependencies, options: options),
            manager.register(registersAgain: true, after: dependencies, options: options),
            manager.register(uploading: store, after: dependencies, options: options),
            manager.synchronizeKeychain(after: dependencies, options: options),
            manager.status(after: dependencies, options: options),
            manager.verify(after: dependencies, options: options),
            manager.changePassword(to: try .cheap("another"), after: dependencies, options: options),
            manager.forgetKeys(after: dependencies, options: options),
            manager.listDocuments(after: dependencies, options: options),
            manager.listClients(after: dependencies, options: options),
            manager.removeDocument(fixture.document, after: dependencies, options: options),
            manager.removeApplication(after: dependencies, options: options),
            manager.removeClient(client, after: dependencies, options: options),
            notes.register(after: dependencies, options: options),
            notes.listClients(after: dependencies, options: options),
            notes.removeClient(client, after: dependencies, options: options),
            notes.remove(after: dependencies, options: options),
            notes.upload(storeAt: store, after: dependencies, options: options),
            notes.download(WholeStoreDownloadRequest(url: store), after: dependencies, options: options),
        ]
    }

    @Test("Each operation of a method has the caller's priority and user info, and waits for the caller's dependencies")
    func allMethods() async throws {
        let fixture = try Fixture()
        let supervisor = OperationSupervisor(.init(isSuspended: true, temporaryDirectory: fixture.temporary))
        let delegate = await AppDelegate()
        let manager = try fixture.device("device").manager(delegate, on: supervisor)
        let gate = supervisor.add { _ in throw Refused() }
        let options = OperationOptions(name: "mine", priority: .low, userInfo: ["ticket": 7])
        let handles = try Self.addAll(manager, fixture, after: [gate], options)
        let added = supervisor.operations.filter { $0.id != gate.id }
        #expect(added.count > handles.count)
        for operation in added {
            #expect(operation.userInfo["ticket"] as? Int == 7)
            #expect(operation.priority == .low)
            #expect(operation.state == .waiting)
        }
        // The name is that of the operation whose handle is returned, not of the registrations before it.
        #expect(Set(added.filter { $0.name == "mine" }.map(\.id)) == Set(handles.map(\.id)))
        #expect(Set(manager.activity.map(\.id)) == Set(added.map(\.id)))

        supervisor.isSuspended = false
        try await supervisor.drain()
        for handle in handles { #expect(handle.error is Refused, "\(handle.name)") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.share.path).isEmpty)
        #expect(manager.activity.isEmpty)
        withExtendedLifetime(delegate) {}
    }

    @Test("The activity lists an operation once, however many handles coalescing gave it")
    func coalescedActivity() async throws {
        let fixture = try Fixture()
        let supervisor = OperationSupervisor(.init(isSuspended: true, temporaryDirectory: fixture.temporary))
        let delegate = await AppDelegate()
        let manager = try fixture.device("device").manager(delegate, on: supervisor)
        let handles = (0..<2).map { _ in manager.status(options: OperationOptions(coalescingKey: "status")) }
        #expect(supervisor.operations.count == 3)
        let activity = manager.activity
        #expect(activity.count == 1)
        activity.first?.cancel()
        #expect(handles.map(\.state) == [.cancelled, .cancelled])
        withExtendedLifetime(delegate) {}
    }

    @Test("An operation after an export uploads what the export writes")
    func afterExport() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        let delegate = await AppDelegate()
        let manager = device.manager(delegate)
        let export = manager.supervisor.add { _ in try device.write("exported") }
        let upload = try await manager.document(fixture.document).upload(storeAt: device.store, after: [export]).value
        #expect(upload.generation == 1)
        withExtendedLifetime(delegate) {}
    }

    @Test("P28: In the background, a manager's operation starts only if its options allow that")
    func background() async throws {
        let fixture = try Fixture()
        let delegate = await AppDelegate()
        let manager = try fixture.device("device").manager(delegate)
        _ = try await manager.register().value
        await manager.supervisor.enterBackground(grace: .seconds(60))
        let held = manager.status()
        let allowed = manager.status(options: OperationOptions(mayContinueInBackground: true))
        try #require(!allowed.explain().description.contains("the app is in the background"))
        _ = try await allowed.value
        #expect(held.explain().description.contains("the app is in the background"))
        await manager.supervisor.enterForeground()
        _ = try await held.value
        withExtendedLifetime(delegate) {}
    }

    @Test("In the background, a synchronization whose options allow it runs with all steps before it")
    func synchronizationInBackground() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        try device.execute("CREATE TABLE note (id INTEGER PRIMARY KEY)")
        let delegate = await AppDelegate()
        let manager = device.manager(delegate)
        await manager.supervisor.enterBackground(grace: .seconds(60))
        let events = manager.supervisor.events
        let handle = manager.document(fixture.document).synchronize(
            SynchronizationRequest(url: device.store),
            options: OperationOptions(mayContinueInBackground: true)
        )
        for await case .operation(let operation, let state) in events {
            try #require(!operation.explain().description.contains("the app is in the background"))
            if operation.id == handle.id, state.isEnded { break }
        }
        #expect(try await handle.value.transfer == .uploaded)
        withExtendedLifetime(delegate) {}
    }

    @Test("P17: A manager doesn't keep its delegate alive, and an operation that needs a released one says so")
    func weakDelegate() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        weak var released: AppDelegate?
        let manager: ApplicationSyncManager
        do {
            let delegate = await AppDelegate()
            released = delegate
            manager = device.manager(delegate)
        }
        #expect(released == nil)
        #expect(await code { try await manager.register().value } == .encryptionUndecided)
    }

    @Test("F16: A deadline cancels the whole pipeline, registrations included")
    func deadline() async throws {
        let fixture = try Fixture()
        let delegate = await AppDelegate()
        let manager = try fixture.device("device").manager(delegate)
        let gate = manager.supervisor.add { context in
            try await context.pause(awaiting: "the test") { try await Never.wait() }
        }
        let upload = manager.document(fixture.document).upload(
            storeAt: fixture.folder.appending(path: "store"),
            after: [gate.ending],
            options: OperationOptions(deadline: .zero)
        )
        let error = await #expect(throws: OperationError.self) { try await upload.value }
        #expect(error?.code == .deadlineExceeded)
        gate.cancel()
        try await manager.supervisor.drain()
        #expect(try fixture.files().isEmpty, "nothing was registered")
        withExtendedLifetime(delegate) {}
    }

    // MARK: Retry

    /// Registers and pushes while the storage fails the first requests, and returns the outcome and the waits.
    private static func push(
        failing failures: [RemoteError.Code],
        retry: RetryPolicy? = nil
    ) async throws -> (Result<WholeStoreUpload, any Error>, waits: Int) {
        let fixture = try Fixture()
        let waits = Locked<[Duration]>([])
        let backend = FailingBackend(fixture.remote, failures)
        let device = try fixture.device("device", backend: backend)
        try device.write("one")
        let delegate = await AppDelegate()
        let clock = RecordingClock(waits: waits)
        let supervisor = OperationSupervisor(.init(clock: clock, temporaryDirectory: fixture.temporary))
        let manager = device.manager(delegate, on: supervisor)
        let options = retry.map { OperationOptions(retry: $0) }
        let upload = manager.document(fixture.document).upload(storeAt: device.store, options: options)
        let result = await upload.result
        withExtendedLifetime(delegate) {}
        // Longer waits limit for how long the upload holds the store.
        return (result, waits.withLock { $0.count { $0 < .seconds(10) } })
    }

    @Test("A manager's operation is retried twice while the storage can't be reached, and waits before each retry")
    func retries() async throws {
        let (result, waits) = try await Self.push(failing: [.unavailable])
        #expect(try result.get().generation == 1)
        #expect(waits == 1)
        let (failure, failureWaits) = try await Self.push(failing: Array(repeating: .unavailable, count: 100))
        #expect(await code { try failure.get() } == .remoteUnavailable)
        #expect(failureWaits == 2)
    }

    @Test("A manager's operation isn't retried when the storage refuses the credentials, or the caller wants no retry")
    func noRetry() async throws {
        let (refusal, refusalWaits) = try await Self.push(failing: [.unauthorized])
        #expect(await code { try refusal.get() } == .remoteUnauthorized)
        #expect(refusalWaits == 0)
        let (failure, failureWaits) = try await Self.push(
            failing: [.unavailable],
            retry: RetryPolicy(maximumAttempts: 1)
        )
        #expect(await code { try failure.get() } == .remoteUnavailable)
        #expect(failureWaits == 0)
    }

    @Test("A retried registration leaves nothing of the failed attempt on the remote")
    func retriedRegistration() async throws {
        let fixture = try Fixture()
        let backend = RecordingBackend()
        let device = try fixture.device("device", backend: backend)
        let delegate = await AppDelegate()
        let supervisor = OperationSupervisor(
            .init(clock: RecordingClock(waits: Locked([])), temporaryDirectory: fixture.temporary)
        )
        let manager = device.manager(delegate, on: supervisor)
        await backend.failOnce(.publishApplication)
        // Each attempt of this registration is another operation, since it's created from the check of the store.
        try device.write("one")
        #expect(try await manager.register(uploading: device.store).value.didCreateApplication)
        #expect(await backend.calls.count { $0 == .publishApplication } == 2)
        #expect(try await backend.list(.root)?.map(\.name) == [fixture.application.rawValue])
        withExtendedLifetime(delegate) {}
    }

    // MARK: Exclusion

    @Test("F19: Two uploads of a document wait for each other, and the explanation says so")
    func uploadsWait() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        try device.write("one")
        let delegate = await AppDelegate()
        let supervisor = OperationSupervisor(.init(isSuspended: true, temporaryDirectory: fixture.temporary))
        var manager = device.manager(delegate, on: supervisor)
        manager.retry = RetryPolicy(maximumAttempts: 1)
        let notes = manager.document(fixture.document)
        let (first, second) = (notes.upload(storeAt: device.store), notes.upload(storeAt: device.store))
        let explanation = second.explain().description
        #expect(explanation.contains("document \(fixture.document) of \(fixture.application)"), "\(explanation)")
        #expect(notes.activity.map(\.id).contains(second.id))
        #expect(try manager.document(RemoteIdentifier("other")).activity.isEmpty)
        supervisor.isSuspended = false
        #expect(try await first.value.generation == 1)
        #expect(try await second.value.isUnchanged)
        withExtendedLifetime(delegate) {}
    }

    @Test("F19: A vacuum waits for a synchronization of the same document, and doesn't fail because of it")
    func vacuumWaits() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        try await DatabaseQueue(path: device.store.path).write {
            try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        }
        let delegate = await AppDelegate()
        let supervisor = OperationSupervisor(.init(temporaryDirectory: fixture.temporary))
        var manager = device.manager(delegate, on: supervisor)
        manager.retry = RetryPolicy(maximumAttempts: 1)
        let notes = manager.document(fixture.document)
        _ = try await notes.synchronize(SynchronizationRequest(url: device.store)).value
        supervisor.isSuspended = true
        let (synchronization, vacuum) = (notes.synchronize(SynchronizationRequest(url: device.store)), notes.vacuum())
        #expect(vacuum.explain().description.contains("document \(fixture.document) of \(fixture.application)"))
        supervisor.isSuspended = false
        _ = try await synchronization.value
        _ = try await vacuum.value
        withExtendedLifetime(delegate) {}
    }
}

extension Never {
    /// Waits until the task is cancelled.
    fileprivate static func wait() async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
        throw CancellationError()
    }
}
