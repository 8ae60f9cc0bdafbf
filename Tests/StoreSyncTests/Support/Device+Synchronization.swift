import Foundation
import GRDB
import Operations
import Testing

@testable import StoreSync

extension Device {
    /// Registers application and document if necessary, and synchronizes the store, as `change` says.
    func synchronize(
        _ change: (inout SynchronizationRequest) -> Void = { _ in }
    ) -> OperationHandle<Synchronization> {
        var request = SynchronizationRequest(url: store)
        change(&request)
        return synchronize(request)
    }

    func synchronize(_ request: SynchronizationRequest) -> OperationHandle<Synchronization> {
        registerDocument().then { [self] registered in
            SynchronizationOperation(request, document: registered, backend: backend, state: state)
        }
    }

    /// Executes statements of the app, and synchronizes the store.
    func synchronize(after sql: String) async throws {
        try execute(sql)
        _ = try await synchronize().value
    }

    /// The client as which this device has synchronized the document.
    func client() throws -> String { try #require(try synchronizationMemory()?.client) }

    /// Executes statements of the app.
    func execute(_ sql: String) throws {
        let queue = try DatabaseQueue(path: store.path, configuration: .ofApp)
        defer { try? queue.close() }
        try queue.write { try $0.execute(sql: sql) }
    }

    /// The first column of a query's rows.
    func query(_ sql: String) throws -> [String] {
        let queue = try DatabaseQueue(path: store.path, configuration: .ofApp)
        defer { try? queue.close() }
        return try queue.read { try String.fetchAll($0, sql: sql) }
    }

    /// Inserts a note with random bytes.
    func insert(_ title: String, bytes: Int = 0) throws {
        try execute("INSERT INTO note (title, bytes) VALUES ('\(title)', randomblob(\(bytes)))")
    }

    /// The titles of the notes, in their order.
    func titles() throws -> [String] { try query("SELECT title FROM note ORDER BY title") }
}

extension Configuration {
    /// Waits while a synchronization has a lock, as an app does.
    static var ofApp: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        return configuration
    }
}
