import Foundation
import GRDB
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The steps of a replacement", .timeLimit(.minutes(60)))
struct ReplacementStepTests {
    struct Cut: Error {}

    /// A way to replace a store, and the state of the replaced store.
    struct Case: CustomTestStringConvertible, Sendable {
        let state: TestStore.State
        let mode: WholeStoreDownloadRequest.Replacement
        let compares: Bool

        var testDescription: String { "\(state), \(mode), \(compares ? "compared" : "overwritten")" }
        var commit: String { mode == .file ? "after the rename" : "after the transaction" }

        static let all = TestStore.State.allCases.flatMap { state in
            [WholeStoreDownloadRequest.Replacement.file, .transaction].flatMap { mode in
                [true, false].map { Case(state: state, mode: mode, compares: $0) }
            }
        }

        /// Creates the store in a new folder and replaces it.
        func run(
            _ faultPoint: @escaping @Sendable (String, TestStore) throws -> Void
        ) throws -> (TestStore, (any Error)?) {
            let store = try TestStore()
            try store.make("old", in: state)
            let root = try store.root()
            do {
                let expectation = compares ? StoreReplacement.Expectation.unchanged(acceptable: [root]) : .anything
                try store.replace(expecting: expectation, mode: mode) { try faultPoint($0, store) }
                return (store, nil)
            } catch {
                return (store, error)
            }
        }
    }

    @Test(
        "F11: A crash at any step leaves the old store or the new one, and the next run succeeds",
        arguments: Case.all
    )
    func crash(_ test: Case) throws {
        let images = Locked<[(point: String, store: TestStore)]>([])
        let (store, error) = try test.run { point, store in
            let image = try store.image()
            images.withLock { $0.append((point, image)) }
        }
        #expect(error == nil)
        #expect(try store.names() == ["store"])
        let taken = images.withLock { $0 }
        #expect(taken.count == (test.mode == .file ? 6 : 2))
        for (point, image) in taken {
            #expect(try image.content() == (point == test.commit ? "new" : "old"), "\(point)")
            try StoreReplacement.restoreLog(of: LocalStore(image.url))
            #expect(try image.journalMode() == test.state.journalMode, "\(point)")
            try StoreReplacement.removeLeftovers(nextTo: LocalStore(image.url).url)
            try image.replace(mode: test.mode)
            #expect(try image.content() == "new", "\(point)")
            #expect(try image.names() == ["store"], "\(point)")
        }
    }

    @Test("An error at any step leaves the old store, in its journal mode", arguments: Case.all)
    func error(_ test: Case) throws {
        let points = Locked<[String]>([])
        _ = try test.run { point, _ in points.withLock { $0.append(point) } }
        for point in points.withLock({ $0 }) where point != test.commit {
            let (store, error) = try test.run { current, _ in if current == point { throw Cut() } }
            #expect(error is Cut, "\(point)")
            #expect(try store.journalMode() == test.state.journalMode, "\(point)")
            #expect(try store.content() == "old", "\(point)")
        }
    }

    @Test(
        "Programs are locked out from the comparison until the new store has the old one's name",
        arguments: TestStore.State.allCases
    )
    func keepsProgramsOut(state: TestStore.State) throws {
        let store = try TestStore()
        try store.make("old", in: state)
        let root = try store.root()
        let program = try SQLProgram(opening: store.url)
        let outcomes = Locked<[Bool]>([])
        try store.replace(expecting: .unchanged(acceptable: [root])) { _ in
            let isCommitted = (try? program.sql("UPDATE item SET value = 'lost'")) != nil
            outcomes.withLock { $0.append(isCommitted) }
        }
        #expect(outcomes.withLock { $0 } == Array(repeating: false, count: 6))
        #expect(try store.content() == "new")
        #expect(try store.journalMode() == state.journalMode)
    }

    @Test("An idle connection with a rollback journal keeps the old store, and SQLite doesn't let it write")
    func idleConnection() throws {
        let store = try TestStore()
        try store.make("old")
        let program = try SQLProgram(opening: store.url)
        try program.sql("SELECT * FROM item")
        try store.replace()
        #expect(throws: SQLProgram.Failure.self) { try program.sql("UPDATE item SET value = 'lost'") }
        #expect(try store.names() == ["store"])
        #expect(try store.content() == "new")
    }

    @Test("A store that is created at the last moment is never overwritten")
    func appearing() throws {
        let store = try TestStore()
        for expectation in [StoreReplacement.Expectation.absent, .unchanged(acceptable: []), .anything] {
            let error = #expect(throws: StoreSyncError.self) {
                try store.replace(expecting: expectation) { point in
                    if point == "before the rename" { try TestStore.make(store.url, "mine") }
                }
            }
            #expect(error?.code == .localChanges)
            #expect(try store.content() == "mine")
            try FileManager.default.removeItem(at: store.url)
        }
        #expect(try store.names().isEmpty)
    }

    @Test("The new store has the owner of the old one", .enabled(if: geteuid() == 0, "only root may change owners"))
    func owner() throws {
        let store = try TestStore()
        try store.make("old")
        #expect(chown(store.url.path, 4321, 1234) == 0)
        try store.replace()
        let attributes = try FileManager.default.attributesOfItem(atPath: store.url.path)
        #expect(attributes[.ownerAccountID] as? Int == 4321)
        #expect(attributes[.groupOwnerAccountID] as? Int == 1234)
    }

    @Test("A cancellation in the middle of a copy is noticed, and the destination is unchanged")
    func cancellation() async throws {
        let store = try TestStore()
        // More pages than are copied in one step.
        try TestStore.make(store.url, String(repeating: "x", count: 1000), pageSize: 512)
        let other = try TestStore()
        try other.make("old")
        let task = Task {
            let (source, destination) = (
                try DatabaseQueue(path: store.url.path), try DatabaseQueue(path: other.url.path)
            )
            #expect(try source.inDatabase { try Int.fetchOne($0, sql: "PRAGMA page_count") ?? 0 } > 4096)
            try source.inDatabase { source in
                try source.inTransaction(.deferred) {
                    try destination.inDatabase { destination in
                        try DatabaseCopy.run(from: source, to: destination) {
                            withUnsafeCurrentTask { $0?.cancel() }
                        }
                    }
                    return .commit
                }
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try other.content() == "old")
        let snapshot = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try StoreSnapshot.take(of: LocalStore(store.url), at: store.file("copy"))
        }
        await #expect(throws: CancellationError.self) { try await snapshot.value }
        #expect(try store.names() == ["store"])
    }
}
