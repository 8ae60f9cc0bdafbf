import FileSupport
import Foundation
import GRDB
import SyncCryptography
import TestSupport
import Testing
import ThreadSupport

@testable import Keychain

@Suite("The locks of a keychain", .timeLimit(.minutes(60)))
struct LockTests {
    private let fixture: KeychainFixture
    private static let item = KeychainItem(service: "notes", account: "key")

    init() throws {
        fixture = try KeychainFixture()
    }

    private var secretFile: URL { fixture.url(DeviceSecret.name) }

    private static func passphrase(_ text: String) throws -> KeychainLock {
        .passphrase(try Password(text), parameters: .interactive)
    }

    private func locked(_ name: String = "keychain.sqlite") async throws -> FileKeychain {
        try await FileKeychain(at: fixture.url(name), entitlements: .notes)
    }

    private func mode(_ url: URL) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    private func setMode(_ mode: Int, _ url: URL) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
    }

    @Test("Parameters that can't be used for a passphrase are refused with the reason")
    func costlyParameters() async throws {
        let keychain = try await locked()
        let parameters = PasswordParameters(passes: 21, memoryKibibytes: 64 << 10)
        await expect(.unavailable, "20 passes") {
            try await keychain.unlock(with: .passphrase(try Password("p"), parameters: parameters))
        }
    }

    // MARK: The device secret

    @Test("D20: A device secret opens the keychain without a user at the device; only the owner can read both files")
    func deviceSecret() async throws {
        let keychain = try await locked()
        #expect(try await keychain.lockKind() == nil)
        await expect(.locked) { try await keychain.add(SecretBytes("s"), as: Self.item) }
        try await keychain.unlock(with: fixture.deviceSecret)
        #expect(try await keychain.lockKind() == .deviceSecret)
        try await keychain.add(SecretBytes("s"), as: Self.item)
        #expect(try mode(secretFile) == 0o600)
        #expect(try mode(fixture.url()) == 0o600)
        #expect(try Data(contentsOf: secretFile).count == 32)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path).filter { $0.hasSuffix(".tmp") }
                == []
        )
        #expect(try await fixture.open().secret(matching: KeychainQuery(Self.item)).text == "s")
    }

    @Test("Concurrent tasks that create the device secret all get the same secret")
    func race() async throws {
        let secrets = try await withThrowingTaskGroup(of: SecretBytes.self) { group in
            for _ in 0..<16 {
                group.addTask { [fixture] in
                    try await runBlocking { try DeviceSecret(in: fixture.folder).readOrMake() }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(secrets.allSatisfy { $0 == secrets[0] })
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path) == [DeviceSecret.name])
    }

    #if os(Linux)
    @Test("The device secret is created where a file system has neither hard links nor exclusive renames")
    func simpleFileSystem() async throws {
        let secret = DeviceSecret(in: fixture.folder)
        let calls: [FileSystemCall: CInt] = [.linkat: EPERM, .renameat2: EINVAL]
        guard let made = try await refusing(calls, { try secret.readOrMake() }) else { return }
        #expect(try secret.readOrMake() == made)
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path) == [DeviceSecret.name])
    }

    @Test("Concurrent tasks get one device secret where a file system has neither hard links nor exclusive renames")
    func simpleFileSystemRace() async throws {
        let calls: [FileSystemCall: CInt] = [.linkat: EPERM, .renameat2: EINVAL]
        for round in 0..<20 {
            let secrets = try await withThrowingTaskGroup(of: SecretBytes?.self) { group in
                for _ in 0..<16 {
                    group.addTask { [fixture] in
                        try await refusing(calls) { try DeviceSecret(in: fixture.folder).readOrMake() }
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(secrets.allSatisfy { $0 == secrets[0] }, "round \(round)")
            let names = try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path)
            for name in names { try FileManager.default.removeItem(at: fixture.url(name)) }
        }
    }
    #endif

    @Test("A copy of the device secret that a process left when it died is removed, and no other file")
    func leftovers() async throws {
        let secret = DeviceSecret(in: fixture.folder)
        let first = try secret.readOrMake()
        let left = ".\(DeviceSecret.name)-\(UUID().uuidString).tmp"
        try FileManager.default.linkItem(at: secretFile, to: fixture.url(left))
        let others = [".\(DeviceSecret.name)", "other.tmp"]
        for name in others { try Data().write(to: fixture.url(name)) }
        #expect(try secret.readOrMake() == first)
        #expect(
            try Set(FileManager.default.contentsOfDirectory(atPath: fixture.folder.path))
                == Set(others + [DeviceSecret.name])
        )
    }

    @Test("Reads beside a change of the lock succeed, and the keychain stays unlocked")
    func changeBesideReads() async throws {
        let keychain = try await fixture.open()
        try await keychain.add(SecretBytes("geheim"), as: Self.item)
        for _ in 0..<20 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                let lock = fixture.deviceSecret
                group.addTask { try await keychain.changeLock(to: lock) }
                for _ in 0..<8 {
                    group.addTask {
                        let secret = try await keychain.secret(matching: KeychainQuery(Self.item))
                        let expected = SecretBytes("geheim")
                        #expect(secret == expected)
                    }
                }
                try await group.waitForAll()
            }
            let isLocked = await keychain.isLocked
            #expect(!isLocked)
        }
    }

    @Test("A keychain whose lock another process changes while it's being unlocked is unlocked", arguments: 0..<8)
    func changeDuringUnlock(step: Int) async throws {
        let other = try await fixture.open()
        try await other.add(SecretBytes("geheim"), as: Self.item)
        let (wrapped, key) = try await WrappedKey.make(for: fixture.deviceSecret, executor: nil)
        let database = await other.database
        let executor = InterposingExecutor(beforeJob: step) { try database.relock(wrapped, key) }
        let keychain = try await FileKeychain(at: fixture.url(), entitlements: .notes, executor: executor)
        try await keychain.unlock(with: fixture.deviceSecret)
        executor.disarm()
        #expect(try await keychain.secret(matching: KeychainQuery(Self.item)).text == "geheim")
    }

    @Test("A keychain that is locked while it's being unlocked stays locked, and the unlock says so")
    func lockDuringUnlock() async throws {
        _ = try await fixture.open()
        var lockedSteps = 0
        for step in 0..<8 {
            let (opened, isDone) = (Locked<KeychainDatabase?>(nil), Locked(false))
            let executor = InterposingExecutor(beforeJob: step) {
                guard let database = opened.withLock(\.self) else { return }
                database.lock()
                isDone.withLock { $0 = true }
            }
            let keychain = try await FileKeychain(at: fixture.url(), entitlements: .notes, executor: executor)
            let database = await keychain.database
            opened.withLock { $0 = database }
            let code: KeychainError.Code?
            do {
                try await keychain.unlock(with: fixture.deviceSecret)
                code = nil
            } catch let error as KeychainError {
                code = error.code
            }
            executor.disarm()
            let wasLocked = isDone.withLock(\.self)
            #expect(code == (wasLocked ? .locked : nil), "step \(step)")
            #expect(database.isLocked == wasLocked, "step \(step)")
            if wasLocked { lockedSteps += 1 }
        }
        #expect(lockedSteps > 2)
    }

    @Test("A keychain that is locked while its lock is being changed stays locked")
    func lockDuringChange() async throws {
        let opened = Locked<KeychainDatabase?>(nil)
        let steps = StepObserver { _ in opened.withLock(\.self)?.lock() }
        let keychain = try await fixture.open(options: FileKeychain.Options(steps: steps))
        let database = await keychain.database
        opened.withLock { $0 = database }
        try await keychain.changeLock(to: fixture.deviceSecret)
        #expect(database.isLocked)
        try await keychain.unlock(with: fixture.deviceSecret)
        #expect(!database.isLocked)
    }

    @Test("A new keychain is unlocked by the key that was created for it, without opening its lock a second time")
    func newKey() async throws {
        let file = secretFile
        let steps = StepObserver { _ in try FileManager.default.removeItem(at: file) }
        let keychain = try await fixture.open(options: FileKeychain.Options(steps: steps))
        #expect(await !keychain.isLocked)
    }

    @Test("A stale key neither unlocks a keychain nor locks it")
    func staleKey() async throws {
        let keychain = try await fixture.open()
        let database = await keychain.database
        let wrapped = try #require(try database.wrappedKey())
        let stale = try await wrapped.open(with: fixture.deviceSecret, executor: nil)
        try await keychain.changeLock(to: fixture.deviceSecret)
        #expect(try !database.unlock(stale, lockedTimes: database.lockCount))
        #expect(await !keychain.isLocked)
    }

    @Test("A read of the keychain that fails isn't called damage")
    func failedRead() async throws {
        let fails = Locked(false)
        let steps = StepObserver { _ in
            // As SQLite reports a page that the medium doesn't give.
            if fails.withLock(\.self) { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        }
        let keychain = try await FileKeychain(
            at: fixture.url("keychain.sqlite"),
            entitlements: .notes,
            options: FileKeychain.Options(steps: steps)
        )
        try await keychain.unlock(with: fixture.deviceSecret)
        fails.withLock { $0 = true }
        await expect(.cannotRead, "Check the disk") { try await keychain.add(SecretBytes("s"), as: Self.item) }
    }

    #if !canImport(Security)
    @Test("A directory whose secret is in the system's keychain of another device opens nothing here, and says why")
    func copied() async throws {
        _ = try await fixture.open()
        try Data(DeviceSecret.Name(item: UUID(), inode: 0).bytes).write(to: secretFile)
        let keychain = try await locked()
        await expect(.deviceSecretMissing, "copied from another device") {
            try await keychain.unlock(with: fixture.deviceSecret)
        }
    }
    #endif

    @Test("A missing device secret is never created again for a keychain that needs the old secret")
    func missing() async throws {
        _ = try await fixture.open()
        try FileManager.default.removeItem(at: secretFile)
        let keychain = try await locked()
        await expect(.deviceSecretMissing, "Put it back from a backup") {
            try await keychain.unlock(with: fixture.deviceSecret)
        }
        #expect(!FileManager.default.fileExists(atPath: secretFile.path))
        try Data(repeating: 7, count: 32).write(to: secretFile)
        try setMode(0o600, secretFile)
        await expect(.wrongLock, "\(secretFile.path) doesn't open this keychain: it's another one") {
            try await keychain.unlock(with: fixture.deviceSecret)
        }
        #expect(await keychain.isLocked)
    }

    @Test("A device secret isn't used if other users could read or replace it, or if it's incomplete")
    func unsafe() async throws {
        _ = try await fixture.open()
        let keychain = try await locked()
        for mode in [0o640, 0o604, 0o660, 0o601] {
            try setMode(mode, secretFile)
            for remedy in ["mode 0600", "uid= and umask=077"] {
                await expect(.deviceSecretUnsafe, remedy) { try await keychain.unlock(with: fixture.deviceSecret) }
            }
        }
        let elsewhere = fixture.url("elsewhere")
        try setMode(0o600, secretFile)
        try FileManager.default.moveItem(at: secretFile, to: elsewhere)
        try FileManager.default.createSymbolicLink(at: secretFile, withDestinationURL: elsewhere)
        await expect(.deviceSecretUnsafe, "symbolic link") { try await keychain.unlock(with: fixture.deviceSecret) }
        try FileManager.default.removeItem(at: secretFile)
        try FileManager.default.createDirectory(at: secretFile, withIntermediateDirectories: true)
        await expect(.deviceSecretUnsafe, "no file") { try await keychain.unlock(with: fixture.deviceSecret) }
        try FileManager.default.removeItem(at: secretFile)
        for count in [0, 31, 33, 36] {
            try Data(repeating: 0, count: count).write(to: secretFile)
            try setMode(0o600, secretFile)
            await expect(.corrupt, "damaged, or another version of this program wrote it") {
                try await keychain.unlock(with: fixture.deviceSecret)
            }
        }
        try FileManager.default.removeItem(at: secretFile)
        try FileManager.default.moveItem(at: elsewhere, to: secretFile)
        try await keychain.unlock(with: fixture.deviceSecret)
        let nowhere = KeychainLock.deviceSecret(in: fixture.url("nowhere"))
        await expect(.cannotWrite, "can't be created") { try await keychain.changeLock(to: nowhere) }
    }

    // MARK: Passphrases

    @Test("A passphrase opens the keychain and another doesn't; the wrong kind of lock has a different error")
    func passphrase() async throws {
        let keychain = try await locked()
        try await keychain.unlock(with: Self.passphrase("correct horse"))
        try await keychain.add(SecretBytes("s"), as: Self.item)
        #expect(!FileManager.default.fileExists(atPath: secretFile.path))
        let again = try await locked()
        #expect(try await again.lockKind() == .passphrase)
        await expect(.wrongPassphrase, "Try again") { try await again.unlock(with: Self.passphrase("battery staple")) }
        await expect(.wrongLock, "Give the passphrase") { try await again.unlock(with: fixture.deviceSecret) }
        #expect(await again.isLocked)
        try await again.unlock(with: Self.passphrase("correct horse\n"))
        #expect(try await again.secret(matching: KeychainQuery(Self.item)).text == "s")
        let device = try await fixture.open("other.sqlite")
        await expect(.wrongLock, "not by a passphrase") { try await device.unlock(with: Self.passphrase("a")) }
        let weak = KeychainLock.passphrase(
            try Password("a"),
            parameters: PasswordParameters(passes: 1, memoryKibibytes: 8)
        )
        await expect(.unavailable, "these parameters") { try await device.changeLock(to: weak) }
    }

    @Test(
        "D19: The passphrase and the kind of lock can be changed, all items stay, and the former lock opens nothing"
    )
    func change() async throws {
        let keychain = try await fixture.open()
        let other = try await fixture.open()
        let shared = KeychainItem(service: "notes", account: "shared", isSynchronizable: true)
        let gone = KeychainItem(service: "notes", account: "gone", isSynchronizable: true)
        for item in [Self.item, shared, gone] { try await keychain.add(SecretBytes(item.account), as: item) }
        try await keychain.delete(KeychainQuery(gone))
        let published = try #require(try await keychain.merge([:], as: "a", registered: ["a", "b"]))
        let locks = [try Self.passphrase("first"), try Self.passphrase("second"), fixture.deviceSecret]
        var former = fixture.deviceSecret
        for lock in locks {
            try await keychain.changeLock(to: lock)
            #expect(try await keychain.copyMatching(.everything).map(\.secret.text) == ["key", "shared"])
            // An unlocked keychain can't continue with the former key.
            await expect(.locked, "by another program") { _ = try await other.copyMatching(.everything) }
            #expect(await other.isLocked)
            await #expect(throws: KeychainError.self) { try await other.unlock(with: former) }
            try await other.unlock(with: lock)
            #expect(try await other.copyMatching(.everything).map(\.secret.text) == ["key", "shared"])
            former = lock
        }
        let again = try await keychain.merge(["a": published], as: "a", registered: ["a", "b"])
        #expect(again == nil, "a change of the lock doesn't change the synchronized content")
        await keychain.lock()
        await expect(.locked) { try await keychain.changeLock(to: former) }
    }

    @Test("Content that was sealed with a former key, or deleted, isn't left in the file")
    func overwritten() async throws {
        let keychain = try await fixture.open()
        try await keychain.add(SecretBytes(randomCount: 5_000), as: Self.item)
        let deleted = KeychainItem(service: "notes", account: "deleted")
        try await keychain.add(SecretBytes(randomCount: 15_000), as: deleted)
        let rows = { [url = fixture.url()] in
            try DatabaseQueue(path: url.path).read {
                try Data.fetchAll($0, sql: "SELECT sealed FROM item UNION ALL SELECT bytes FROM wrappedKey")
            }
        }
        let former = try rows()
        try await keychain.delete(KeychainQuery(deleted))
        try await keychain.changeLock(to: Self.passphrase("first"))
        for file in try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path) {
            let content = try Data(contentsOf: fixture.url(file))
            for blob in former {
                for part in [blob.prefix(100), blob.dropFirst(blob.count / 2).prefix(48), blob.suffix(48)] {
                    #expect(content.range(of: part.suffix(48)) == nil, "\(file)")
                }
            }
        }
    }

    @Test("Two keychains that set up the same new file concurrently share one key")
    func setUpAtOnce() async throws {
        let keychains = [try await locked(), try await locked()]
        let passphrase = try Self.passphrase("same")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for keychain in keychains { group.addTask { try await keychain.unlock(with: passphrase) } }
            try await group.waitForAll()
        }
        try await keychains[0].add(SecretBytes("s"), as: Self.item)
        #expect(try await keychains[1].secret(matching: KeychainQuery(Self.item)).text == "s")
    }

    @Test("A cancelled task doesn't wait for a hash, and the keychain stays locked")
    func cancellation() async throws {
        let keychain = try await locked()
        let task = Task { try await keychain.unlock(with: Self.passphrase("slow")) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(await keychain.isLocked)
    }

    // MARK: The file

    @Test("A file that isn't a keychain, or that a newer program wrote, is refused and not changed")
    func foreignFiles() async throws {
        let database = try DatabaseQueue(path: fixture.url("other.sqlite").path)
        try await database.write { try $0.execute(sql: "CREATE TABLE t (x)") }
        await expect(.unsupportedFormat, "no keychain") { _ = try await locked("other.sqlite") }
        _ = try await fixture.open()
        try await DatabaseQueue(path: fixture.url().path).write { try $0.execute(sql: "PRAGMA user_version = 2") }
        await expect(.unsupportedFormat, "Update") { _ = try await locked() }
        try Data(repeating: 0x2A, count: 8_192).write(to: fixture.url("noise.sqlite"))
        await expect(.corrupt, "backup") { _ = try await locked("noise.sqlite") }
        await expect(.cannotWrite, "permissions") { _ = try await locked("no/where.sqlite") }
    }
}

/// Runs jobs one after the other, and a closure before one of them.
private final class InterposingExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "InterposingExecutor")
    private let body: @Sendable () throws -> Void
    /// The number of jobs before the closure; `nil` once it was called.
    private let left: Locked<Int?>

    init(beforeJob index: Int, _ body: @escaping @Sendable () throws -> Void) {
        self.body = body
        left = Locked(index)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in
            let isDue = left.withLock { left in
                let isDue = left == 0
                left = isDue ? nil : left.map { $0 - 1 }
                return isDue
            }
            if isDue { #expect(throws: Never.self) { try body() } }
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    /// Doesn't call the closure any more.
    func disarm() { left.withLock { $0 = nil } }
}
