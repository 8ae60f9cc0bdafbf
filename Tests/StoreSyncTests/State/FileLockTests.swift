import Foundation
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A lock of the state directory", .timeLimit(.minutes(60)))
struct FileLockTests {
    private let fixture: StateFixture
    private let state: StateDirectory
    private let diary = FileLock.Subject.document(StateFixture.diary)

    init() throws {
        fixture = try StateFixture()
        state = try fixture.open()
    }

    private func isFree(_ subject: FileLock.Subject, _ mode: FileLock.Mode = .exclusive) throws -> Bool {
        do {
            // Through another instance, as another process would.
            try fixture.open().lock(subject, mode).release()
            return true
        } catch let error as StoreSyncError where error.code == .busy {
            return false
        }
    }

    @Test("A state directory's lock excludes others until it is released, and releasing it twice does nothing")
    func excludes() throws {
        let lock = try state.lock(diary, .exclusive)
        #expect(try !isFree(diary))
        #expect(throws: StoreSyncError.self) { try state.lock(diary, .exclusive) }
        lock.release()
        #expect(try isFree(diary))
        let next = try state.lock(diary, .exclusive)
        lock.release()
        #expect(try !isFree(diary))
        next.release()
    }

    @Test("A state directory's lock is released with its last reference")
    func releasedByDeinit() throws {
        var lock: FileLock? = try state.lock(diary, .exclusive)
        #expect(lock != nil)
        lock = nil
        #expect(try isFree(diary))
    }

    @Test("A shared lock of the state directory admits only shared locks")
    func shared() throws {
        let application = FileLock.Subject.application(StateFixture.notes)
        let one = try state.lock(application, .shared)
        let other = try state.lock(application, .shared)
        #expect(try isFree(application, .shared))
        #expect(try !isFree(application))
        one.release()
        #expect(try !isFree(application))
        other.release()
        let exclusive = try state.lock(application, .exclusive)
        #expect(try !isFree(application, .shared))
        exclusive.release()
    }

    @Test("The refusal of a lock names the locked item, its holder and what to do")
    func refusal() throws {
        let subjects: [(FileLock.Subject, String)] = [
            (.application(StateFixture.notes), "registration with notes"),
            (diary, "The document diary"),
            (.store("/data/a.sqlite"), "The store /data/a.sqlite"),
        ]
        for (subject, words) in subjects {
            try state.lock(subject, .exclusive, by: "A former holder with a long name").release()
            let lock = try state.lock(subject, .exclusive, by: "Upload")
            defer { lock.release() }
            let error = #expect(throws: StoreSyncError.self) { try state.lock(subject, .exclusive) }
            #expect(error?.code == .busy)
            #expect(error?.message.contains(words) == true)
            #expect(error?.message.contains("used by Upload of process \(getpid()) on this device") == true)
            #expect(error?.message.hasSuffix("Try again when it has ended.") == true)
        }
    }

    @Test("The refusal of a lock names an operation in words, not by its type")
    func operation() throws {
        let lock = try state.lock(diary, .exclusive, by: "WholeStoreUploadOperation")
        defer { lock.release() }
        let error = #expect(throws: StoreSyncError.self) { try state.lock(diary, .exclusive) }
        #expect(error?.message.contains("used by the whole store upload of process \(getpid())") == true)
    }

    @Test("The refusal of a lock names no holder if shared locks are the reason")
    func sharedRefusal() throws {
        let subject = FileLock.Subject.application(StateFixture.notes)
        try state.lock(subject, .exclusive, by: "Upload").release()
        let lock = try state.lock(subject, .shared, by: "Registration")
        defer { lock.release() }
        let error = #expect(throws: StoreSyncError.self) { try state.lock(subject, .exclusive) }
        #expect(error?.message.contains("used by another operation on this device") == true)
    }

    @Test("A lock's file can be opened again, whatever the umask was when it was created")
    func umaskOfFiles() async {
        // In a separate process, because umask(2) applies to the whole process.
        await #expect(processExitsWith: .success) {
            let fixture = try StateFixture()
            let state = try fixture.open()
            let former = umask(0o277)
            try state.lock(.document(StateFixture.diary), .exclusive).release()
            umask(former)
            let folder = fixture.url.appendingPathComponent("locks").path
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                let attributes = try FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)")
                try #require(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
            }
        }
    }

    @Test("A lock's file that its owner can open keeps its mode, since some file systems refuse to change it")
    func modeOfFiles() throws {
        let url = fixture.sibling("lock")
        try Data().write(to: url)
        try FileManager.default.setAttributes([.posixPermissions: 0o660], ofItemAtPath: url.path)
        try FileLock(at: url, diary, .exclusive, by: "test").release()
        let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
        #expect(attributes[.posixPermissions] as? Int == 0o660)
    }

    @Test("A lock locks no other subject, however similar their names and hostile their characters are")
    func noCollisions() throws {
        func document(_ remote: String, _ application: String, _ document: String) -> FileLock.Subject {
            .document(
                DocumentKey(
                    application: ApplicationKey(remote: remote, application: application),
                    document: document
                )
            )
        }
        let subjects: [FileLock.Subject] = [
            document("a", "b", "cd"), document("a", "bc", "d"), document("ab", "c", "d"), document("", "abc", "d"),
            document("a", "1:b", "c"), document("a1:", "b", "c"), document("../..", "..", "/etc/passwd"),
            .application(ApplicationKey(remote: "a", application: "b")), .store("a"), .store("A"),
            .store(LocalPath("/" + String(repeating: "long/", count: 800))), .store("/ü\n'\""), .store(""),
        ]
        let locks = try subjects.map { try state.lock($0, .exclusive) }
        for subject in subjects { #expect(try !isFree(subject)) }
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.url.path + "/locks")
        #expect(files.allSatisfy { $0 == "opening" || Int($0) != nil })
        for lock in locks { lock.release() }
    }

    @Test("A state directory's lock is granted to one of many concurrent callers")
    func oneWinner() async throws {
        let (state, subject) = (state, diary)
        let locks = await withTaskGroup(of: FileLock?.self) { group in
            for _ in 0..<12 {
                group.addTask { try? await runBlocking { try state.lock(subject, .exclusive) } }
            }
            return await group.reduce(into: [FileLock]()) { locks, lock in if let lock { locks.append(lock) } }
        }
        #expect(locks.count == 1)
        for lock in locks { lock.release() }
    }

    @Test("A lock in a state directory that was removed meanwhile says so, and blames neither permissions nor space")
    func removedDirectory() throws {
        // The database, which is open, still counts the lock.
        try state.lock(diary, .exclusive).release()
        try FileManager.default.removeItem(at: fixture.url)
        let error = #expect(throws: StoreSyncError.self) { try state.lock(diary, .exclusive) }
        #expect(error?.code == .cannotWrite)
        #expect(error?.message.contains("was removed or renamed meanwhile. Try again.") == true, "\(error as Any)")
    }

    @Test("D12: A state directory's lock is released when the process that holds it is killed")
    func killedHolder() async throws {
        try state.lock(diary, .exclusive).release()
        let folder = fixture.url.appendingPathComponent("locks")
        let file = try #require(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).first { $0 != "opening" }
        )
        let holder = try PythonProcess(
            """
            import fcntl, sys
            file = open(sys.argv[1], "r+")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("locked")
            sys.stdin.read()
            """,
            [folder.appendingPathComponent(file).path]
        )
        #expect(try await holder.line() == "locked")
        #expect(try !isFree(diary))
        try await holder.kill9()
        #expect(try isFree(diary))
    }
}
