import ContentDigests
import DatabaseSupport
import Foundation
import GRDB
import RemoteStorage
import ThreadSupport

/// A database in WAL mode that is read as a file, in one state, while other connections write to it.
///
/// A read transaction that begins when the whole log has been copied into the database file, and the log is empty,
/// reads only that file. SQLite copies no newer pages into the file until the transaction ends, and writers append to
/// the log. So the file is read in place, without a copy on this device.
///
/// The log grows meanwhile, so the transaction is limited. After ``TakenStore/maximumHold`` or ``maximumLogBytes`` the state
/// is copied, the transaction ends, and reads continue from the copy. A database with a rollback journal is never held,
/// since its writers would have to wait.
///
/// The bytes equal the bytes of a ``StoreSnapshot`` of the same state.
final class HeldDatabase: HeldStore, @unchecked Sendable {
    // Sendable: the connection and the state are used in the connection's queue only.

    /// The maximum size of the log before the state is copied.
    static let maximumLogBytes: Int64 = 64 << 20

    private enum State {
        /// The transaction is open.
        case held
        /// The transaction has ended, and the copy holds its state.
        case copied(StoreSnapshot)
        /// The transaction has ended, and nothing can be read any more.
        case ended(StoreSyncError)
    }

    private let file: DatabasePages
    let store: LocalStore
    private let destination: URL
    private let queue: DatabaseQueue
    private let fingerprint: LocalStore.Fingerprint?
    private var state = State.held

    var byteCount: Int64 { file.byteCount }

    /// Holds a database; a copy is created at `destination` if one is needed.
    ///
    /// Blocks, but doesn't wait for other connections. The result is `nil` if the database can't be held: it has a
    /// rollback journal, another connection locks it or reads from the log, or it can't be opened.
    /// ``StoreSnapshot/take(of:at:)`` then copies it, or throws the reason.
    init?(_ store: LocalStore, copyingTo destination: URL) {
        do {
            guard store.isDatabase else { return nil }
            try store.refuseForeignFiles()
            var configuration = Configuration.ofPages
            // The transaction stays open between reads.
            configuration.allowsUnsafeTransactions = true
            configuration.busyMode = .immediateError
            let queue = try DatabaseQueue(path: store.url.path, configuration: configuration)
            guard let file = try queue.inDatabase(Self.hold) else {
                try? queue.close()
                return nil
            }
            self.queue = queue
            self.store = store
            self.destination = destination
            self.file = file
            fingerprint = store.fingerprint
        } catch {
            return nil
        }
    }

    private static func hold(_ db: Database) throws -> DatabasePages? {
        guard try db.usesLog else { return nil }
        return try DatabasePages.hold(db)
    }

    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        try queue.inDatabase { db in
            if case .held = state, try logBytes(db) > Self.maximumLogBytes { try copy(db) }
            switch state {
            case .held: return try read(db, at: offset, upTo: count)
            case .copied(let snapshot): return try snapshot.read(at: offset, upTo: count)
            case .ended(let error): throw error
            }
        }
    }

    private func read(_ db: Database, at offset: Int64, upTo count: Int) throws -> [UInt8] {
        do { return try file.readSnapshot(db, at: offset, upTo: count) } catch { throw unreadable(error) }
    }

    private func logBytes(_ db: Database) throws -> Int64 {
        do {
            return try DatabasePages.sizeOfUsedLog(of: db)
        } catch {
            throw unreadable(error)
        }
    }

    private func unreadable(_ cause: (any Error)? = nil) -> StoreSyncError {
        StoreSyncError(
            .storeChanged,
            "\(store.path) can't be read any further. Nothing was published. Try again.",
            cause: cause
        )
    }

    // MARK: Ending the transaction

    func copy() throws {
        try queue.inDatabase { db in
            guard case .held = state else { return }
            try copy(db)
        }
    }

    private func copy(_ db: Database) throws {
        do {
            let snapshot = try snapshot(db)
            state = isUnchanged ? .copied(snapshot) : .ended(writtenByOthers)
        } catch let error as CancellationError {
            throw error
        } catch {
            state = .ended(error as? StoreSyncError ?? StoreSyncError(writing: destination, error))
        }
        try? db.rollback()
    }

    private func snapshot(_ db: Database) throws -> StoreSnapshot {
        try LocalFile.create(destination.path)
        do {
            let file = try FileHandle(forWritingTo: destination)
            defer { try? file.close() }
            var offset: Int64 = 0
            while offset < byteCount {
                try Task.checkCancellation()
                let piece = try read(db, at: offset, upTo: RemoteContent.chunkSize)
                try file.write(contentsOf: piece)
                offset += Int64(piece.count)
            }
            return StoreSnapshot(url: destination, byteCount: byteCount, store.pages, knownRoot: nil)
        } catch {
            try? FileManager.default.removeItem(at: destination)
            throw error
        }
    }

    func check(_ root: ContentRoot, on executor: (any TaskExecutor)?) async throws {
        try await runBlocking(on: executor) { try check() }
    }

    /// Checks that no program wrote to the file without SQLite, which keeps the state.
    func check() throws {
        try queue.inDatabase { _ in
            switch state {
            // While the transaction still keeps writers away from the file.
            case .held: guard isUnchanged else { throw writtenByOthers }
            case .copied: break
            case .ended(let error): throw error
            }
        }
    }

    func release() {
        queue.inDatabase { db in
            switch state {
            case .held: try? db.rollback()
            case .copied(let snapshot): try? FileManager.default.removeItem(at: snapshot.url)
            case .ended: break
            }
            state = .ended(unreadable())
        }
        try? queue.close()
    }

    private var isUnchanged: Bool { fingerprint == store.fingerprint }

    private var writtenByOthers: StoreSyncError {
        StoreSyncError(
            .storeChanged,
            "Something other than SQLite wrote to \(store.path) while it was read. Nothing was published. Try again."
        )
    }

    deinit { try? queue.close() }
}
