import DatabaseSupport
import FileSupport
import Foundation
import GRDB

/// Capturing what the user changed, and writing what merging changed, while an app may write to the store.
extension SynchronizedStore {
    /// How often a synchronization starts over because an app wrote meanwhile.
    private static let maximumAttempts = 2
    /// How long a capture may have taken that keeps an app from writing: less than the shortest usual busy timeout.
    private static let longestWait = Duration.seconds(1)

    func captureAndWrite(
        _ outcome: inout Outcome,
        _ allowsDeletions: Bool,
        taking side: TakenSide?,
        keepingFormer keep: (Database) throws -> Void
    ) throws {
        var side = side
        outcome.needsNewerSchema = try replicaDatabase.read { _ in try replica.needsNewerSchema() }
        outcome.captured += try replicaDatabase.write { _ in
            try replica.captureVoidSetsAgain(at: now().millisecondsSince1970)
        }
        let clock = ContinuousClock()
        var duration = Duration.zero
        for _ in 0..<Self.maximumAttempts {
            let start = clock.now
            if try attempt(&outcome, allowsDeletions, taking: side, keepingFormer: keep) { return }
            // From then on the store is the replica's, and differences are edits.
            side = nil
            duration = clock.now - start
        }
        if duration < Self.longestWait { try writeWhileNoAppWrites(&outcome, allowsDeletions) }
    }

    /// Captures and writes in one transaction, for an app that writes all the time.
    private func writeWhileNoAppWrites(
        _ outcome: inout Outcome,
        _ allowsDeletions: Bool,
        retriesRefused: Bool = true
    ) throws {
        do {
            try store.write { db in
                try replicaDatabase.read { _ in try refuseOtherStore(db) }
                let time = time(ofEditsUntil: StoreStatus(ofStoreAt: url.path).modified)
                outcome.captured += try replicaDatabase.write { _ in
                    try replica.capture(db, at: time, allowsDeletions: allowsDeletions, since: nil)
                }
                try replicaDatabase.write { _ in try replica.prepare(db, retriesRefused: retriesRefused) }
                try observer.reached("captured")
                outcome.note(try replicaDatabase.read { _ in try replica.write(to: db) })
                return .commit
            }
        } catch let error as RefusedRows {
            try replicaDatabase.write { _ in try replica.refuse(error) }
            return try writeWhileNoAppWrites(&outcome, allowsDeletions, retriesRefused: false)
        }
        try observer.reached("written")
        try replicaDatabase.write { _ in try replica.finish() }
    }

    /// Captures and writes, unless an app writes the same rows between the two.
    ///
    /// The capture of a large store takes long, and an app must not wait for it.
    private func attempt(
        _ outcome: inout Outcome,
        _ allowsDeletions: Bool,
        taking side: TakenSide?,
        keepingFormer keep: (Database) throws -> Void
    ) throws -> Bool {
        var captured: [OwnSet] = []
        let version = try replicaDatabase.write { _ -> Int? in
            if let version = try unchangedVersion(taking: side) {
                guard try replica.needsWrite() else { return nil }
                try store.read { try replica.prepare($0) }
                return version
            }
            return try captureSnapshot(readingPages: side == nil) { view in
                captured = try capture(view, allowsDeletions: allowsDeletions, taking: side)
                // What an app writes after this view is an edit.
                if side == .remote { try keep(view.db) }
                guard try !captured.isEmpty || side != nil || replica.needsWrite() else { return nil }
                try replica.prepare(view.db)
                return view.version
            }
        }
        outcome.captured += captured
        guard let version else { return true }
        try observer.reached("captured")
        guard let (written, leftState) = try writePrepared(unlessChangedSince: version) else { return false }
        try observer.reached("written")
        try replicaDatabase.write { _ in try replica.finish() }
        outcome.note(written)
        guard let leftState, let status = settledStatus(leftIn: leftState) else { return true }
        try replicaDatabase.write { _ in try replica.remember(status) }
        return true
    }

    /// Writes what was prepared, without the rows that the store's constraints refuse.
    private func writePrepared(
        unlessChangedSince version: Int
    ) throws -> (WrittenChanges, StoreConnection.LeftState?)? {
        while true {
            do {
                return try replicaDatabase.read { _ in try write(unlessChangedSince: version) }
            } catch let error as RefusedRows {
                try replicaDatabase.write { _ in try replica.refuse(error) }
            }
        }
    }

    /// Writes what was prepared; `nil` if that would overwrite what an app wrote since the capture.
    ///
    /// The second value is the state in which the store is left; `nil` if an app wrote other rows since the capture, which
    /// the next synchronization has to capture.
    private func write(
        unlessChangedSince version: Int
    ) throws -> (WrittenChanges, StoreConnection.LeftState?)? {
        var written: WrittenChanges?
        var isChanged = false
        let leftState = try store.write { db in
            try refuseOtherStore(db)
            isChanged = try store.version(beforeWriting: db) != version
            guard try !isChanged || replica.canWrite(to: db) else { return .rollback }
            do {
                written = try replica.write(to: db)
            } catch is RefusedRows where isChanged {
                return .rollback
            } catch let error as DatabaseError where isChanged && error.isOfRow {
                return .rollback
            }
            return .commit
        }
        return written.map { ($0, isChanged ? nil : leftState) }
    }
}

extension SynchronizedStore.Outcome {
    fileprivate mutating func note(_ changes: WrittenChanges) {
        (written, staleSearchIndexes) = (changes.counts, changes.staleSearchIndexes)
    }
}
