import Foundation
import GRDB
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The state directory", .timeLimit(.minutes(60)))
struct StateDirectoryTests {
    private let fixture: StateFixture

    init() throws {
        fixture = try StateFixture()
    }

    // MARK: - Opening

    @Test("A state directory is created with its parents, accessible only to its owner")
    func modes() throws {
        let url = fixture.url.appendingPathComponent("deep/er")
        let state = try StateDirectory(url: url)
        _ = try state.clientIdentifier(for: StateFixture.notes)
        _ = try state.lock(.document(StateFixture.diary), .exclusive)
        #expect(try mode(url) == 0o700)
        #expect(try mode(url.appendingPathComponent("locks")) == 0o700)
        let files = try FileManager.default.subpathsOfDirectory(atPath: url.path).filter { $0 != "locks" }
        #expect(files.contains("state.sqlite"))
        for file in files {
            #expect(try mode(url.appendingPathComponent(file)) == 0o600, "\(file)")
        }
    }

    @Test("A state directory removes other users' permissions when it is opened")
    func tightens() throws {
        _ = try fixture.open()
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: fixture.url.path)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: fixture.database.path)
        _ = try fixture.open()
        #expect(try mode(fixture.url) == 0o700)
        #expect(try mode(fixture.database) == 0o600)
    }

    @Test("A state directory is refused in a folder that holds other files, whose mode stays as it is")
    func foreignFolder() throws {
        let others = [FileAttributeKey.posixPermissions: 0o755]
        try FileManager.default.createDirectory(at: fixture.url, withIntermediateDirectories: true, attributes: others)
        try Data().write(to: fixture.url.appendingPathComponent("letter.txt"))
        expect(.cannotWrite, "a folder for the state alone")
        #expect(try mode(fixture.url) == 0o755)
    }

    @Test("A state directory that has lost everything but its keychains is opened, and still opens these")
    func keychainsAlone() async throws {
        let state = try fixture.open()
        let (application, key) = (StateFixture.notes, MasterKey())
        try await state.keep(key, for: application, epoch: "one", on: nil)
        _ = try await state.keychain(for: application, entitlements: nil, on: nil)
        for name in try FileManager.default.contentsOfDirectory(atPath: fixture.url.path)
        where !name.hasPrefix("keychain") {
            try FileManager.default.removeItem(at: fixture.url.appendingPathComponent(name))
        }
        #expect(try await fixture.open().masterKey(for: application, epoch: "one", on: nil) == key)
        for name in ["state.sqlite", "locks"] {
            try FileManager.default.removeItem(at: fixture.url.appendingPathComponent(name))
        }
        try Data().write(to: fixture.url.appendingPathComponent("letter.txt"))
        expect(.cannotWrite, "a folder for the state alone")
    }

    @Test("A state directory is refused if a file exists at its path")
    func notAFolder() throws {
        try Data().write(to: fixture.url)
        expect(.cannotWrite, "Choose another")
    }

    @Test("A state directory is refused if its database can't be opened")
    func notADatabaseFile() throws {
        try FileManager.default.createDirectory(at: fixture.database, withIntermediateDirectories: true)
        expect(.cannotWrite, "Check its permissions")
    }

    @Test("A state directory reports a damaged database, what starting over costs, and what it still holds")
    func damaged() throws {
        try FileManager.default.createDirectory(at: fixture.url, withIntermediateDirectories: true)
        try Data(repeating: 0x2A, count: 8_192).write(to: fixture.database)
        expect(.corrupt, "the keys of encrypted applications, which their passwords give back.")
        expect(.corrupt, "Keep the former one: it holds keychain items (keychains, keychain-secret)")
        try FileManager.default.removeItem(at: fixture.database)
        _ = try fixture.open().clientIdentifier(for: StateFixture.notes)
    }

    @Test("A state directory reports a read that failed as such, and not as damage")
    func failedRead() throws {
        _ = try fixture.open()
        for code in [ResultCode.SQLITE_CORRUPT, .SQLITE_IOERR_READ] {
            let error = StoreSyncError(state: DatabaseError(resultCode: code), at: fixture.url)
            #expect(error.code == .cannotWrite)
            #expect(error.message.hasPrefix("\(fixture.database.path) on this device couldn't be read"), "\(error)")
        }
    }

    @Test("A state directory doesn't take a keychain that can't be reached for a missing keychain")
    func unreachableKeychain() async throws {
        let state = try fixture.open()
        let path = fixture.url.appendingPathComponent("keychain.sqlite").path
        // A link to itself is an error for every user. Permissions wouldn't hold back root.
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path)
        let error = await #expect(throws: StoreSyncError.self) {
            try await state.masterKey(for: StateFixture.notes, epoch: "1", on: nil)
        }
        #expect(error?.code == .cannotWrite && error?.message.hasPrefix("\(path) can't be read") == true)
    }

    @Test("A state directory reports a damaged row as a damaged database")
    func damagedRow() throws {
        let state = try fixture.open()
        try state.recordUpload(StateFixture.record(1))
        try DatabaseQueue(path: fixture.database.path).write {
            try $0.execute(sql: "UPDATE upload SET value = '{'")
        }
        #expect {
            try state.uploads(for: StateFixture.diary)
        } throws: {
            Self.code($0) == .corrupt
        }
    }

    @Test(
        "A state directory that lacks one of its tables is reported as damaged",
        arguments: ["store", "lockName", "grdb_migrations"]
    )
    func missingTable(name: String) throws {
        _ = try fixture.open()
        try DatabaseQueue(path: fixture.database.path).write { try $0.execute(sql: "DROP TABLE \(name)") }
        #expect {
            let state = try fixture.open()
            _ = try state.stores(of: StateFixture.diary)
            _ = try state.lock(.document(StateFixture.diary), .exclusive)
        } throws: {
            Self.code($0) == .corrupt
        }
    }

    @Test("A state directory of the first version is read with what it says of its uploads")
    func firstVersion() throws {
        let state = try fixture.open()
        let uploads = (1...3).map { StateFixture.record($0) }
        for upload in uploads { try state.recordUpload(upload) }
        try state.commitPush(uploads[1])
        try DatabaseQueue(path: fixture.database.path).write {
            try $0.execute(
                sql: """
                    DROP INDEX uploadGeneration; DROP INDEX unpublishedUpload;
                    ALTER TABLE upload DROP COLUMN isPublished;
                    DELETE FROM grdb_migrations WHERE identifier = '2'
                    """
            )
        }
        let reopened = try fixture.open()
        let diary = StateFixture.diary
        #expect(try reopened.uploads(for: diary, .unpublished).map(\.name.generation) == [1, 3])
        #expect(try reopened.uploads(for: diary, .lastPublished).map(\.name) == [uploads[1].name])
        #expect(try reopened.incompletePush(for: diary) == uploads[1].name)
    }

    @Test("A state directory is refused and left unchanged if a newer version has written it")
    func newerVersion() throws {
        _ = try fixture.open()
        try DatabaseQueue(path: fixture.database.path).write {
            try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99')")
        }
        expect(.unsupportedFormat, "newer version")
    }

    @Test("A state directory writes into one file, and empties its journal instead of deleting it")
    func journal() throws {
        let state = try fixture.open()
        _ = try state.clientIdentifier(for: StateFixture.notes)
        #expect(try Data(contentsOf: URL(fileURLWithPath: fixture.database.path + "-journal")).isEmpty)
        let header = try Data(contentsOf: fixture.database).prefix(20)
        #expect(header[18] == 1 && header[19] == 1, "not WAL")
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.url.path)
        #expect(!files.contains { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") })
    }

    // MARK: - Several at once

    @Test("A new state directory gives all concurrent callers the same client identifier")
    func concurrentFirstUse() async throws {
        let url = fixture.url
        let identifiers = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<12 {
                group.addTask {
                    try await runBlocking { try StateDirectory(url: url).clientIdentifier(for: StateFixture.notes) }
                }
            }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(identifiers.count == 1)
    }

    @Test("An open state directory sees what another instance of it writes")
    func twoInstances() throws {
        let (one, other) = try (fixture.open(), fixture.open())
        try one.setIntegrityKey("key", for: StateFixture.diary)
        #expect(try other.integrityKey(for: StateFixture.diary) == "key")
    }

    @Test("A state directory keeps this process's locks on its database when it is opened again")
    func keepsLocks() async throws {
        _ = try fixture.open()
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: fixture.database.path, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
        _ = try fixture.open()
        let other = try PythonProcess(
            """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
            try:
                db.execute("BEGIN IMMEDIATE")
                print("taken")
            except sqlite3.OperationalError as error:
                print(error)
            """,
            [fixture.database.path]
        )
        #expect(try await other.line() == "database is locked")
        try queue.inDatabase { try $0.execute(sql: "COMMIT") }
    }

    @Test("A copy of a state directory starts as the same device, and is independent from then on")
    func copied() throws {
        let state = try fixture.open()
        let identifier = try state.clientIdentifier(for: StateFixture.notes)
        let copy = fixture.sibling("clone")
        try FileManager.default.copyItem(at: fixture.url, to: copy)
        let clone = try StateDirectory(url: copy)
        #expect(try clone.clientIdentifier(for: StateFixture.notes) == identifier)
        let replaced = try clone.replaceClientIdentifier(for: StateFixture.notes)
        #expect(try state.clientIdentifier(for: StateFixture.notes) == identifier)
        #expect(try clone.clientIdentifier(for: StateFixture.notes) == replaced)
        let lock = try state.lock(.document(StateFixture.diary), .exclusive)
        defer { lock.release() }
        try clone.lock(.document(StateFixture.diary), .exclusive).release()
    }

    // MARK: - Support

    private func mode(_ url: URL) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: url.path)[.posixPermissions] as? Int
    }

    private static func code(_ error: any Error) -> StoreSyncError.Code? { (error as? StoreSyncError)?.code }

    private func expect(
        _ code: StoreSyncError.Code,
        _ words: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: StoreSyncError.self, sourceLocation: sourceLocation) { _ = try fixture.open() }
        #expect(error?.code == code, sourceLocation: sourceLocation)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
    }
}
