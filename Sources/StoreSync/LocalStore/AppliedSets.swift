import DatabaseSupport
import Foundation
import GRDB

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
            try database.writeWithoutTransaction(createTable)
            try database.close()
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }

    private static func createTable(_ db: Database) throws {
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
            let database = try DatabaseQueue(path: checkpoint.path, configuration: .ofThisPackage)
            try database.write { db in
                // A device that began with a downloaded checkpoint still has the table of that checkpoint.
                try db.execute(sql: "DROP TABLE IF EXISTS appliedSet")
                try createTable(db)
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

    init(_ parent: URL, path: LocalPath, document: DocumentKey) {
        url = parent.appending(path: document.fileName(path.text), directoryHint: .isDirectory)
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
        guard try LocalFile.exists(location(file).path) else {
            return try AppliedSets.create(at: copy)
        }
        try self.copy(file, to: copy)
    }

    /// Removes the files of a store that is gone.
    func remove() { try? FileManager.default.removeItem(at: url) }

    /// Keeps a file that was downloaded, until its store is in place.
    func stage(_ file: WholeStoreFile, from download: URL) throws {
        try LocalFile.createDirectory(at: url)
        do {
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

    /// Puts the staged files into use, once their store is in place.
    func commit() throws {
        for file in WholeStoreFile.allCases where try LocalFile.exists(arrival(file).path) {
            try LocalFile.rename(arrival(file).path, to: location(file).path)
        }
    }

    private var exists: Bool {
        get throws { try LocalFile.exists(url.path) }
    }

    /// Moves the files if there are any.
    func moveIfPresent(to other: AppliedSetsDirectory) throws {
        guard try exists else { return }
        other.remove()
        try LocalFile.rename(url.path, to: other.url.path)
    }

    // MARK: Moves

    /// Moves the files out of the way, and returns the name under which they are set aside.
    ///
    /// The name begins with this directory's name, and no former one equals it.
    func setAside() throws -> String {
        let aside = url.appendingPathExtension(UUID().uuidString)
        if try exists {
            try LocalFile.rename(url.path, to: aside.path)
        } else {
            // A store without applied sets has none at its new path either.
            try LocalFile.createDirectory(at: aside)
        }
        return aside.lastPathComponent
    }

    /// Whether files of this directory are set aside, if these are the names in the directory above it.
    func isSetAside(among names: [String]) -> Bool { names.contains(where: isAside) }

    /// Moves the files back that are set aside.
    func restore() throws {
        for aside in asides { try aside.moveIfPresent(to: self) }
    }

    /// Moves files here that were set aside under a name, perhaps those of another store.
    func take(_ name: String) throws {
        let aside = url.deletingLastPathComponent().appending(path: name, directoryHint: .isDirectory)
        try AppliedSetsDirectory(url: aside).moveIfPresent(to: self)
    }

    private var asides: [AppliedSetsDirectory] {
        let parent = url.deletingLastPathComponent()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent.path)) ?? []
        return names.filter(isAside).map {
            AppliedSetsDirectory(url: parent.appending(path: $0, directoryHint: .isDirectory))
        }
    }

    private func isAside(_ name: String) -> Bool { name.hasPrefix(url.lastPathComponent + ".") }
}
