import DatabaseSupport
import Foundation
import GRDB
import RemoteStorage

/// The files that say which sets of changes and commands are in a store.
///
/// They travel with the store.
enum AppliedSets {
    // "SSas", by which tools can identify the file.
    private static let applicationID = 0x5353_6173

    /// Creates a file with nothing applied.
    static func create(at url: URL) throws {
        do {
            var configuration = Configuration.ofThisPackage
            // It's part of a copy that is uploaded or discarded, and needn't survive a crash.
            configuration.prepareDatabase { try $0.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF") }
            let database = try DatabaseQueue(path: url.path, configuration: configuration)
            try database.writeWithoutTransaction { db in
                try begin(db)
            }
            try database.close()
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }
}

extension AppliedSets {
    private static func begin(_ db: Database) throws {
        try db.execute(
            sql: """
                PRAGMA application_id = \(applicationID);
                PRAGMA user_version = 1;
                CREATE TABLE appliedSet (
                    identifier TEXT PRIMARY KEY NOT NULL,
                    applied TEXT NOT NULL
                ) WITHOUT ROWID;
                """
        )
    }

    /// Notes in a checkpoint the last change set of each client that its store contains.
    static func note(_ vector: [String: UInt64], in checkpoint: URL, at time: Date) throws {
        do {
            let database = try DatabaseQueue(path: checkpoint.path)
            try database.write { db in
                // A device that began with a downloaded checkpoint still has the table of that checkpoint.
                try db.execute(sql: "DROP TABLE IF EXISTS appliedSet")
                try begin(db)
                for (client, sequence) in vector.sorted(by: { $0.key < $1.key }) {
                    try db.execute(
                        sql: "INSERT INTO appliedSet (identifier, applied) VALUES (?, ?)",
                        arguments: ["\(client)-\(sequence)", time.formatted(.iso8601)]
                    )
                }
            }
            try database.close()
        } catch {
            throw StoreSyncError(writing: checkpoint, error)
        }
    }
}

/// The directory in which a device keeps the applied sets of one local store.
struct AppliedSetsDirectory: Sendable {
    private let url: URL

    init(_ parent: URL, path: String, document: DocumentKey) {
        url = parent.appending(path: document.fileName(path), directoryHint: .isDirectory)
    }

    private init(url: URL) { self.url = url }

    private func location(_ file: WholeStoreFile) -> URL { url.appending(path: file.rawValue) }
    private func arrival(_ file: WholeStoreFile) -> URL { url.appending(path: file.rawValue + ".arrived") }

    /// Copies a file that came with a store; it must exist.
    func copy(_ file: WholeStoreFile, to copy: URL) throws {
        do {
            try FileManager.default.copyItem(at: location(file), to: copy)
        } catch {
            throw StoreSyncError(writing: copy, error)
        }
    }

    /// Copies a file for an upload, or creates one with nothing applied if it doesn't exist yet.
    func copyOrCreate(_ file: WholeStoreFile, at copy: URL) throws {
        guard FileManager.default.fileExists(atPath: location(file).path) else {
            return try AppliedSets.create(at: copy)
        }
        try self.copy(file, to: copy)
    }

    /// Removes the files of a store that is gone.
    func remove() { try? FileManager.default.removeItem(at: url) }

    /// Removes the files of a store that is forgotten, also those of a move that was interrupted.
    func removeAll() {
        remove()
        moved.remove()
    }

    /// Keeps a file that was downloaded, until its store is in place.
    func stage(_ file: WholeStoreFile, from download: URL) throws {
        do {
            try FileManager.default.createDirectory(
                at: url,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try? FileManager.default.removeItem(at: arrival(file))
            try FileManager.default.moveItem(at: download, to: arrival(file))
        } catch {
            throw StoreSyncError(writing: arrival(file), error)
        }
    }

    /// Removes the staged files of a download that was never put in place.
    func discardStaged() {
        for file in WholeStoreFile.allCases { try? FileManager.default.removeItem(at: arrival(file)) }
    }

    private var exists: Bool { access(url.path, F_OK) == 0 }

    /// Moves the files if there are any.
    func moveIfPresent(to other: AppliedSetsDirectory) throws {
        guard exists else { return }
        other.remove()
        try LocalFile.rename(url.path, to: other.url.path)
    }

    /// The files of a store that was moved to this directory's store path, until its record says so.
    private var moved: AppliedSetsDirectory { AppliedSetsDirectory(url: url.appendingPathExtension("moved")) }

    /// Begins to move the files of a store that was moved to the path of `other`, before its record gets that path.
    ///
    /// If this device died since and the move is repeated, nothing is lost. No file of `other` changes.
    func beginMove(to other: AppliedSetsDirectory) throws {
        let moved = other.moved
        if exists { return try moveIfPresent(to: moved) }
        do {
            // A store without applied sets has none at its new path either.
            try FileManager.default.createDirectory(
                at: moved.url,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StoreSyncError(writing: moved.url, error)
        }
    }

    /// Completes the move of the files of the store at this directory's path, once its record has that path.
    func completeMove() throws { try moved.moveIfPresent(to: self) }

    /// Puts the staged files into use, once their store is in place.
    func commit() throws {
        let arrived = WholeStoreFile.allCases.filter { access(arrival($0).path, F_OK) == 0 }
        // The files of a former store at this path are outdated.
        if !arrived.isEmpty { moved.remove() }
        for file in arrived { try LocalFile.rename(arrival(file).path, to: location(file).path) }
    }
}
