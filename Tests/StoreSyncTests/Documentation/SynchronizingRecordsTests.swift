import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import StoreSync
import Testing

// The code between the marks is also in the documentation.

// DOC: records
extension NotesSync {
    /// Publishes what this device has edited, and takes what other devices have edited.
    ///
    /// - Returns: What merging overwrote or left out.
    func mergeRecords() async throws -> [ConflictLog.Entry] {
        let result = try await notes.synchronize(SynchronizationRequest(url: store)).value
        for (table, rows) in result.applied { print("\(table): \(rows.inserted) new, \(rows.updated) changed") }
        return result.conflicts == 0 ? [] : try await notes.conflicts(ofStoreAt: store).entries()
    }

    /// Puts back what an entry lost, as an edit of the user.
    func restore(_ entry: ConflictLog.Entry) async throws {
        try await notes.conflicts(ofStoreAt: store).restore(entry.number)
        _ = try await mergeRecords()
    }
}
// DOC: end

// DOC: watching
extension NotesSync {
    /// Synchronizes whenever the store or the remote changes, until the task is cancelled.
    func keepUpToDate(_ show: (Synchronization) -> Void) async throws {
        for try await event in notes.watch(SynchronizationRequest(url: store)) {
            switch event {
            case .began(let synchronization): print("\(synchronization.name) began")
            case .synchronized(let result): show(result)
            case .failed(let error, let delay): print("\(error.message) The next attempt is within \(delay).")
            }
        }
    }
}
// DOC: end

// DOC: lasting
extension NotesSync {
    /// Watches until the task is cancelled, and asks whether rows that are gone were deleted on purpose.
    func watch(_ show: (Synchronization) -> Void, isDeletionIntended: (StoreSyncError) async -> Bool) async throws {
        while !Task.isCancelled {
            do {
                try await keepUpToDate(show)
            } catch let error as StoreSyncError where error.code == .massDeletion {
                guard await isDeletionIntended(error) else { throw error }
                // For this synchronization only: a watch with this request would allow all later deletions, too.
                _ = try await notes.synchronize(SynchronizationRequest(url: store, allowsDeletions: true)).value
            }
        }
    }

    /// Shows what a synchronization does, until it ends.
    func showProgress(of synchronization: OperationHandle<Synchronization>, _ show: (OperationProgress) -> Void) async {
        for await event in synchronization.events {
            if case .progress(let progress) = event { show(progress) }
        }
    }

    /// Ends a watch when the app quits, and publishes what the user has just edited, if the time suffices.
    func end(_ watch: Task<Void, any Error>, within limit: Duration = .seconds(5)) async {
        watch.cancel()
        _ = await watch.result
        let options = OperationOptions(retry: RetryPolicy(maximumAttempts: 1), deadline: limit)
        _ = await notes.synchronize(SynchronizationRequest(url: store), options: options).result
    }
}
// DOC: end

// DOC: vacuum
extension NotesSync {
    /// Shortens the log, and returns the devices for which a part of it is kept.
    func shortenLog() async throws -> [RemoteIdentifier] {
        try await notes.vacuum().value.keptFor
    }
}
// DOC: end

@Suite("Synchronizing records")
struct SynchronizingRecordsTests {
    @Test("The examples of the article merge the edits of two devices, and restore what was overwritten")
    @MainActor func twoDevices() async throws {
        let fixture = try Fixture()
        var devices: [NotesSync] = []
        for name in ["laptop", "desktop"] { devices.append(try await device(name, in: fixture)) }
        let (laptop, desktop) = (devices[0], devices[1])
        try execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER)", in: laptop.store)
        try execute("INSERT INTO note VALUES (1, 'milk', 0)", in: laptop.store)
        #expect(try await laptop.mergeRecords().isEmpty)
        #expect(try await desktop.mergeRecords().isEmpty)

        try execute("UPDATE note SET title = 'oat milk'; INSERT INTO note VALUES (2, 'bread', 0)", in: laptop.store)
        try execute(
            "UPDATE note SET title = 'soy milk'; INSERT INTO note VALUES (2, 'tea', 0)",
            in: desktop.store
        )
        #expect(try await laptop.mergeRecords().isEmpty)
        let conflicts = try await desktop.mergeRecords()
        #expect(conflicts.map(\.conflict.lost) == [["title": .value(.text("oat milk"))]])
        _ = try await laptop.mergeRecords()
        #expect(try titles(in: laptop.store) == ["soy milk 0", "bread 0", "tea 0"])
        #expect(try titles(in: desktop.store) == titles(in: laptop.store))
        #expect(try await laptop.shortenLog().isEmpty)

        try await desktop.restore(conflicts[0])
        _ = try await laptop.mergeRecords()
        #expect(try titles(in: laptop.store) == ["oat milk 0", "bread 0", "tea 0"])
    }

    @Test("The example that watches brings an edit to another device that watches")
    @MainActor func watching() async throws {
        let fixture = try Fixture()
        let (results, continuation) = AsyncStream.makeStream(of: (String, Synchronization).self)
        var iterator = results.makeAsyncIterator()
        var tasks: [Task<Void, any Error>] = []
        defer { for task in tasks { task.cancel() } }
        var stores: [URL] = []
        for name in ["laptop", "desktop"] {
            let device = try await device(name, in: fixture)
            stores.append(device.store)
            if name == "laptop" {
                try execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER)", in: device.store)
            }
            tasks.append(Task { try await device.keepUpToDate { continuation.yield((name, $0)) } })
            while let (device, _) = await iterator.next(isolation: MainActor.shared), device != name {}
        }
        try execute("INSERT INTO note VALUES (1, 'milk', 0)", in: stores[0])
        while let (name, result) = await iterator.next(isolation: MainActor.shared) {
            if name == "desktop", !result.applied.isEmpty { break }
        }
        #expect(try titles(in: stores[1]) == ["milk 0"])
    }

    @Test("The example of a lasting watch asks once about deleted rows, and its end publishes the last edit")
    @MainActor func lasting() async throws {
        let fixture = try Fixture()
        let laptop = try await device("laptop", in: fixture)
        try execute(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
            INSERT INTO note SELECT i, 'note ' || i, 0 FROM n
            """,
            in: laptop.store
        )
        var reports = 0
        let first = laptop.notes.synchronize(SynchronizationRequest(url: laptop.store))
        await laptop.showProgress(of: first) { _ in reports += 1 }
        _ = try await first.value
        #expect(reports > 0)

        try execute("DELETE FROM note WHERE id > 1", in: laptop.store)
        let (results, continuation) = AsyncStream.makeStream(of: Int.self)
        var questions = 0
        let watch = Task {
            try await laptop.watch {
                continuation.yield($0.publishedChanges)
            } isDeletionIntended: {
                #expect($0.code == .massDeletion)
                questions += 1
                return true
            }
        }
        // The watch that follows the answer has nothing to publish.
        var iterator = results.makeAsyncIterator()
        #expect(await iterator.next(isolation: MainActor.shared) == 0)
        #expect(questions == 1)
        try execute("UPDATE note SET title = 'tea'", in: laptop.store)
        await laptop.end(watch, within: .seconds(600))
        let desktop = try await device("desktop", in: fixture)
        _ = try await desktop.mergeRecords()
        #expect(try titles(in: desktop.store) == ["tea 0"])
    }

    @MainActor private func device(_ name: String, in fixture: Fixture) async throws -> NotesSync {
        let home = fixture.folder.appending(path: name, directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        return try await NotesSync(device: name, home: home, share: fixture.share, password: "correct horse")
    }

    private func execute(_ sql: String, in store: URL) throws {
        try connect(to: store).write { try $0.execute(sql: sql) }
    }

    private func titles(in store: URL) throws -> Set<String> {
        try connect(to: store).read { try Set(String.fetchAll($0, sql: "SELECT title || ' ' || done FROM note")) }
    }

    /// Connects as the article tells an app to: it waits while a watch reads or writes the store.
    private func connect(to store: URL) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        return try DatabaseQueue(path: store.path, configuration: configuration)
    }
}
