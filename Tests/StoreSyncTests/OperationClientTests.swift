import Foundation
import InMemoryLogging
import Logging
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The client on whose behalf operations work", .timeLimit(.minutes(60)))
struct OperationClientTests {
    @Test("P25: Logs and explanations of managers' operations name this device's client, once it has registered")
    func managers() async throws {
        let fixture = try Fixture()
        let log = InMemoryLogHandler()
        let logger = Logger(label: "client") { _ in
            var handler = log
            handler.logLevel = .debug
            return handler
        }
        let delegate = Asker()
        let url = fixture.folder.appending(path: "memory")
        func manager(_ state: StateDirectory) -> ApplicationSyncManager {
            ApplicationSyncManager(
                application: fixture.application,
                clientDescription: "laptop",
                backend: fixture.remote,
                state: state,
                supervisor: OperationSupervisor(.init(logger: logger, temporaryDirectory: fixture.temporary)),
                delegate: delegate
            )
        }
        let first = manager(try StateDirectory(url: url))
        let registration = first.register()
        #expect(registration.explain().clientIdentifier == nil)
        let client = try await registration.value.client.rawValue
        #expect(first.status().explain().clientIdentifier == client)

        // Another process, which reads the identifier when it opens the state directory.
        let second = manager(try StateDirectory(url: url))
        let store = fixture.folder.appending(path: "diary.sqlite")
        try Store.write(["one"], to: store)
        let diary = second.document(fixture.document)
        let handles: [any OperationReference] = [
            second.register(), second.synchronizeKeychain(), second.status(), second.verify(),
            diary.register(), diary.upload(storeAt: store), diary.download(WholeStoreDownloadRequest(url: store)),
        ]
        for handle in handles { #expect(handle.explain().clientIdentifier == client) }
        try await second.supervisor.drain()
        let starts = log.entries.filter { "\($0.message)" == "operation started" }
        let clients = starts.map { $0.metadata["operation.client"]?.description ?? "none" }
        #expect(clients.first == "none")
        #expect(Set(clients.dropFirst()) == [client])
        #expect(clients.count > handles.count)

        try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
        let again = second.register(registersAgain: true)
        #expect(again.explain().clientIdentifier == nil)
        let renewed = try await again.value.client.rawValue
        #expect(renewed != client)
        #expect(second.status().explain().clientIdentifier == renewed)
        withExtendedLifetime(delegate) {}
    }
}
