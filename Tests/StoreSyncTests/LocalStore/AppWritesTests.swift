import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("An app that writes to its store during a push", .timeLimit(.minutes(60)))
struct AppWritesTests {
    /// The app's own connection, which never waits for a lock.
    private final class App: Sendable {
        private let queue: DatabaseQueue
        private let errors = Locked<[(any Error)?]>([])

        /// The error of each write; `nil` for a success.
        var outcomes: [(any Error)?] { errors.withLock { $0 } }

        init(_ url: URL) throws {
            queue = try DatabaseQueue(path: url.path)
        }

        func write() {
            errors.withLock { errors in
                do {
                    let note = "during \(errors.count)"
                    try queue.inDatabase { try $0.execute(sql: "INSERT INTO note VALUES (?)", arguments: [note]) }
                    errors.append(nil)
                } catch {
                    errors.append(error)
                }
            }
        }

        /// Adds `count` MiB of different bytes in one transaction.
        func grow(by count: Int) throws {
            try queue.write { db in
                try db.execute(
                    sql: """
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                        INSERT INTO note SELECT printf('%01048576d', i) FROM n
                        """
                )
            }
        }

        /// Copies the log into the database file and empties it; returns whether that was possible.
        func emptiesLog() throws -> Bool {
            try queue.inDatabase { db in
                try Int.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)") == 0
            }
        }
    }

    /// A remote that calls back after each piece of a store that it receives.
    private actor SlowBackend: InterceptingBackend {
        nonisolated let base: any RemoteBackend = InMemoryBackend()
        private let whileReceiving: @Sendable (_ piece: Int) async throws -> Void

        init(_ whileReceiving: @escaping @Sendable (_ piece: Int) async throws -> Void) {
            self.whileReceiving = whileReceiving
        }

        func write(
            _ content: RemoteContent,
            to path: RemotePath,
            when condition: WriteCondition
        ) async throws -> RemoteItem {
            guard path.lastComponent == WholeStoreFile.store.rawValue else {
                return try await base.write(content, to: path, when: condition)
            }
            let slow = RemoteContent(length: content.length) { [whileReceiving] in
                var iterator = content.makeAsyncIterator()
                var count = 0
                return {
                    guard let piece = try await iterator.next() else { return nil }
                    try await whileReceiving(count)
                    count += 1
                    return piece
                }
            }
            return try await base.write(slow, to: path, when: condition)
        }
    }

    private static func snapshot(of url: URL, in fixture: Fixture) throws -> Data {
        let copy = fixture.folder.appending(path: UUID().uuidString)
        return try Data(contentsOf: StoreSnapshot.take(of: LocalStore(url), at: copy).url)
    }

    @Test(
        "A push never locks an app out of a store in rollback-journal mode, whether it's whole or a delta",
        arguments: [nil, "correct horse"]
    )
    func rollbackJournal(password: String?) async throws {
        let fixture = try Fixture(password: password, isVolatile: false)
        try await Simulation.run(seed: 1) { simulation in
            let app = Locked<App?>(nil)
            let device = try fixture.device("a", simulation: simulation) { _ in app.withLock { $0 }?.write() }
            try device.write("one")
            try Store.setJournalMode("delete", of: device.store)
            let writer = try App(device.store)
            app.withLock { $0 = writer }
            for _ in 0..<2 { _ = try await device.push().value }
            app.withLock { $0 = nil }
            let failures = writer.outcomes.compactMap(\.self)
            #expect(failures.isEmpty && writer.outcomes.count > 80)
            let reader = try fixture.device("reader", simulation: simulation)
            _ = try await reader.pull().value
            let notes = try reader.notes()
            #expect(notes == Set(["one"] + (0..<notes.count - 1).map { "during \($0)" }), "one state of the store")
        }
    }

    @Test(
        "An app can empty the log of a store in WAL mode during a push that takes longer than half a minute",
        arguments: [false, true]
    )
    func slowPush(isStalled: Bool) async throws {
        let fixture = try Fixture(isVolatile: false)
        try await Simulation.run(seed: 1) { simulation in
            let app = Locked<App?>(nil)
            let emptied = Locked<[Bool]>([])
            let backend = SlowBackend { piece in
                guard piece < 8, let app = app.withLock({ $0 }) else { return }
                // Either one long stall, or a delay for each piece.
                try await simulation.clock.sleep(for: .seconds(isStalled && piece == 0 ? 31 : 7))
                app.write()
                let isEmptied = try app.emptiesLog()
                emptied.withLock { $0.append(isEmptied) }
            }
            let device = try fixture.device("a", backend: backend, simulation: simulation)
            try device.write("one")
            let writer = try App(device.store)
            try writer.grow(by: 16)
            let expected = try Self.snapshot(of: device.store, in: fixture)
            app.withLock { $0 = writer }
            _ = try await device.push().value
            app.withLock { $0 = nil }
            #expect(writer.outcomes.allSatisfy { $0 == nil })
            let reader = try fixture.device("reader", backend: backend, simulation: simulation)
            _ = try await reader.pull().value
            let pushed = try Self.snapshot(of: reader.store, in: fixture)
            #expect(pushed == expected)
            let held = emptied.withLock { $0.prefix { !$0 }.count }
            #expect(held == (isStalled ? 0 : 4), "held for less than 30 seconds")
            #expect(emptied.withLock { $0.dropFirst(held).allSatisfy(\.self) && $0.count == 8 })
        }
    }

    @Test("An app can empty the log of a store in WAL mode once it has grown beyond 64 MiB during a push")
    func largeLog() async throws {
        let fixture = try Fixture(isVolatile: false)
        try await Simulation.run(seed: 1) { simulation in
            let app = Locked<App?>(nil)
            let emptied = Locked<[Bool]>([])
            let backend = SlowBackend { piece in
                guard let app = app.withLock({ $0 }) else { return }
                if piece == 1 { try app.grow(by: 65) }
                if [0, 1, 15].contains(piece) {
                    let isEmptied = try app.emptiesLog()
                    emptied.withLock { $0.append(isEmptied) }
                }
            }
            let device = try fixture.device("a", backend: backend, simulation: simulation)
            try device.write("one")
            let writer = try App(device.store)
            try writer.grow(by: 16)
            let expected = try Self.snapshot(of: device.store, in: fixture)
            app.withLock { $0 = writer }
            _ = try await device.push().value
            app.withLock { $0 = nil }
            #expect(emptied.withLock { $0 } == [true, false, true], "while it was empty, held, and copied")
            let reader = try fixture.device("reader", backend: backend, simulation: simulation)
            _ = try await reader.pull().value
            let pushed = try Self.snapshot(of: reader.store, in: fixture)
            #expect(pushed == expected)
        }
    }

    /// The names of large files in the operations' temporary directories.
    private static func largeFiles(of fixture: Fixture) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: fixture.temporary.path).filter {
            let attributes = try? FileManager.default.attributesOfItem(
                atPath: fixture.temporary.appending(path: $0).path
            )
            return (attributes?[.size] as? Int ?? 0) > 1 << 20
        }
    }

    @Test(
        "A push within half a minute copies no store in WAL mode, and no file that isn't a database",
        arguments: [nil, "correct horse"],
        [true, false]
    )
    func copiesNothing(password: String?, isDatabase: Bool) async throws {
        let fixture = try Fixture(password: password)
        try await Simulation.run(seed: 1) { simulation in
            let copies = Locked<[String]>([])
            let pieces = Locked(0)
            let backend = SlowBackend { _ in
                let found = try Self.largeFiles(of: fixture)
                copies.withLock { $0 += found }
                pieces.withLock { $0 += 1 }
            }
            let device = try fixture.device("a", backend: backend, simulation: simulation)
            if isDatabase {
                try device.write("one")
                try App(device.store).grow(by: 4)
            } else {
                try ChunkedStore(url: device.store).make(chunks: 4, version: 0)
            }
            _ = try await device.push().value
            #expect(pieces.withLock { $0 } > 0)
            #expect(copies.withLock { $0 } == [])
        }
    }

    @Test(
        "A file that an app saves while it's sent is sent once more, from a copy, and nothing else stays",
        arguments: [nil, "correct horse"],
        [false, true]
    )
    func savedFile(password: String?, isStalled: Bool) async throws {
        let fixture = try Fixture(password: password)
        try await Simulation.run(seed: 1) { simulation in
            let (attempts, store) = (Locked(0), Locked<URL?>(nil))
            let backend = SlowBackend { piece in
                let attempt = attempts.withLock { attempts in
                    if piece == 0 { attempts += 1 }
                    return attempts
                }
                guard let store = store.withLock({ $0 }) else { return }
                // Another length, again and again; or once, and then nothing is read until the state has to be copied.
                guard !isStalled || (attempt, piece) == (1, 0) else { return }
                try ChunkedStore(url: store).make(chunks: 3, version: attempt * 100 + piece)
                if isStalled { try await simulation.clock.sleep(for: .seconds(31)) }
            }
            let device = try fixture.device("a", backend: backend, simulation: simulation)
            store.withLock { $0 = device.store }
            try ChunkedStore(url: device.store).make(chunks: 4, version: 0)
            _ = try await device.push().value
            #expect(attempts.withLock { $0 } == 2)
            let last = try Data(contentsOf: device.store)
            store.withLock { $0 = nil }
            let reader = try fixture.device("reader", backend: backend, simulation: simulation)
            _ = try await reader.pull().value
            let pulled = try Data(contentsOf: reader.store)
            #expect(pulled.count == 3 * ChunkedStore.chunk)
            #expect((pulled == last) == isStalled, "what the file was when it was copied")
            #expect(try await Self.uploads(of: fixture, on: backend) == 1)
        }
    }

    /// How many folders of uploads are on the storage.
    private static func uploads(of fixture: Fixture, on backend: any RemoteBackend) async throws -> Int {
        let stores = fixture.hierarchy.document(fixture.document).wholeStores
        var count = 0
        for client in try await backend.list(stores) ?? [] where client.kind == .directory {
            let folders = try await backend.list(stores.appending(client.name)) ?? []
            count += folders.count { $0.kind == .directory }
        }
        return count
    }

    /// Returns a device whose app saves the given file once, when it was read and before it's compared.
    private static func savingDevice(of fixture: Fixture) throws -> (Device, saves: Locked<URL?>) {
        let saves = Locked<URL?>(nil)
        let device = try fixture.device("a") { step in
            guard step == "store read" else { return }
            let store = saves.withLock { url in
                defer { url = nil }
                return url
            }
            if let store { try ChunkedStore(url: store).edit(chunk: 2, version: 7) }
        }
        return (device, saves)
    }

    @Test(
        "A file that an app saves when all was sent is sent once more, and the first upload doesn't stay",
        arguments: [nil, "correct horse"]
    )
    func savedFileAfterSending(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (device, saves) = try Self.savingDevice(of: fixture)
        try ChunkedStore(url: device.store).make(chunks: 4, version: 0)
        saves.withLock { $0 = device.store }
        _ = try await device.push().value
        #expect(saves.withLock { $0 } == nil)
        #expect(try await Self.uploads(of: fixture, on: fixture.remote) == 1)
        let reader = try fixture.device("reader")
        _ = try await reader.pull().value
        #expect(try Data(contentsOf: reader.store) == Data(contentsOf: device.store))
    }

    @Test("A file that an app saves while its delta is made gets another delta in the next attempt")
    func savedFileOfDelta() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (device, saves) = try Self.savingDevice(of: fixture)
        try ChunkedStore(url: device.store).make(chunks: 40, version: 0)
        _ = try await device.push().value
        try ChunkedStore(url: device.store).edit(chunk: 1, version: 1)
        saves.withLock { $0 = device.store }
        let upload = try await device.push().value
        #expect(saves.withLock { $0 } == nil && upload.storedBytes < upload.bytes / 2, "a delta")
        let reader = try fixture.device("reader")
        _ = try await reader.pull().value
        #expect(try Data(contentsOf: reader.store) == Data(contentsOf: device.store))
    }
}
