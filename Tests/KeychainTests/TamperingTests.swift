import Foundation
import GRDB
import SyncCryptography
import Testing

@testable import Keychain

@Suite("A keychain's file that an attacker can change", .timeLimit(.minutes(60)))
struct TamperingTests {
    private let fixture: KeychainFixture
    private let keychain: FileKeychain
    private let database: DatabaseQueue

    private static let codes: Set<KeychainError.Code> = [.tampered, .corrupt, .wrongLock, .locked]

    init() async throws {
        fixture = try KeychainFixture()
        keychain = try await fixture.open()
        database = try DatabaseQueue(path: fixture.url().path)
        for account in ["a", "b"] {
            for isSynchronizable in [false, true] {
                let item = KeychainItem(service: "s", account: account, isSynchronizable: isSynchronizable)
                try await keychain.add(SecretBytes("secret of \(account), \(isSynchronizable)"), as: item)
            }
        }
        try await keychain.delete(KeychainQuery(service: "s", account: "b", synchronizable: .yes))
    }

    /// Returns everything that a device reads when it opens the file now; throws only typed errors.
    private func readAll() async throws -> [String] {
        do {
            let keychain = try await fixture.open()
            let secrets = try await keychain.copyMatching(.everything).map(\.secret.text)
            let replica = try await keychain.merge([:], as: "client", registered: ["client", "other"])
            return secrets + (replica?.entries.values.map { $0.secret?.text ?? "deleted" } ?? []).sorted()
        } catch let error as KeychainError {
            #expect(Self.codes.contains(error.code), "\(error)")
            throw error
        }
    }

    private func isDetected() async throws -> Bool {
        do {
            _ = try await readAll()
            return false
        } catch is KeychainError {
            return true
        }
    }

    @Test("Changing any byte of sealed content is a typed error")
    func everyByte() async throws {
        let places = try await database.read { db in
            let items = try Row.fetchAll(db, sql: "SELECT account, isSynchronizable, sealed FROM item").map { row in
                (
                    sql: "UPDATE item SET sealed = ? WHERE account = '\(row["account"] as String)' "
                        + "AND isSynchronizable = \(row["isSynchronizable"] as Int)",
                    blob: row["sealed"] as Data
                )
            }
            let keys = try Row.fetchAll(db, sql: "SELECT bytes, clock FROM wrappedKey").flatMap { row in
                [
                    (sql: "UPDATE wrappedKey SET bytes = ?", blob: row["bytes"] as Data),
                    (sql: "UPDATE wrappedKey SET clock = ?", blob: row["clock"] as Data),
                ]
            }
            return items + keys
        }
        #expect(places.count == 6)
        var cases = 0
        for (sql, blob) in places {
            for index in blob.indices {
                var changed = blob
                changed[index] ^= UInt8(1 << (index % 8))
                try await database.write { [changed] in try $0.execute(sql: sql, arguments: [changed]) }
                #expect(try await isDetected(), "\(sql), byte \(index)")
                cases += 1
            }
            for count in [0, 1, 50, 103, 104, blob.count - 1] {
                try await database.write { try $0.execute(sql: sql, arguments: [blob.prefix(count)]) }
                #expect(try await isDetected(), "\(sql), \(count) bytes")
            }
            try await database.write { try $0.execute(sql: sql, arguments: [blob]) }
        }
        #expect(try await readAll().count == 5)
        #expect(cases > 800, "\(cases)")
    }

    @Test("Changing any byte of a key that a passphrase wraps is a typed error")
    func passphraseKey() async throws {
        let lock = KeychainLock.passphrase(try Password("correct horse"), parameters: .interactive)
        try await keychain.changeLock(to: lock)
        let blob = try await database.read { try Data.fetchOne($0, sql: "SELECT bytes FROM wrappedKey") }
        let bytes = try #require(blob)
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 0x10
            try await database.write { [changed] in
                try $0.execute(sql: "UPDATE wrappedKey SET bytes = ?", arguments: [changed])
            }
            let device = try await FileKeychain(at: fixture.url(), entitlements: .notes)
            await expect(.tampered, "backup") { try await device.unlock(with: lock) }
        }
    }

    @Test(
        "Rows whose sealed secrets, versions or attributes were exchanged don't open",
        arguments: [
            // The secrets of two items.
            """
            UPDATE item SET sealed = (SELECT sealed FROM item AS o WHERE o.isSynchronizable = 0 AND o.account != item.account)
            WHERE isSynchronizable = 0
            """,
            // The secrets and versions of an item and of the synchronizable item with equal names.
            """
            UPDATE item SET (sealed, counter, replica) =
            (SELECT sealed, counter, replica FROM item AS o WHERE o.account = 'a' AND o.isSynchronizable != item.isSynchronizable)
            WHERE account = 'a'
            """,
            "UPDATE item SET counter = counter + 1 WHERE account = 'a' AND isSynchronizable = 0",
            "UPDATE item SET account = 'c' WHERE account = 'a' AND isSynchronizable = 0",
            "UPDATE item SET service = 'S' WHERE account = 'a' AND isSynchronizable = 1",
            "UPDATE item SET accessGroup = 'TEAM.mine' WHERE account = 'a' AND isSynchronizable = 0",
            "DELETE FROM item WHERE account = 'b'; UPDATE item SET account = 'b' WHERE isSynchronizable = 0",
            // A forged deletion, and a forged undoing of a deletion.
            "UPDATE item SET isTombstone = 1 WHERE account = 'a' AND isSynchronizable = 1",
            "UPDATE item SET isTombstone = 0 WHERE account = 'b' AND isSynchronizable = 1",
            "UPDATE item SET replica = '' WHERE isSynchronizable = 1",
            "UPDATE item SET replica = '00000000-0000-0000-0000-000000000000' WHERE isSynchronizable = 1",
            "UPDATE item SET counter = -1",
            "UPDATE item SET counter = 9223372036854775807",
            "UPDATE wrappedKey SET kind = 'nothing'",
            "UPDATE wrappedKey SET epoch = 'nothing'",
            "UPDATE wrappedKey SET epoch = '00000000-0000-0000-0000-000000000000'",
            "UPDATE wrappedKey SET clock = bytes",
            "UPDATE item SET sealed = (SELECT clock FROM wrappedKey)",
        ]
    )
    func exchanges(sql: String) async throws {
        try await database.write { try $0.execute(sql: sql) }
        #expect(try await isDetected(), "\(sql)")
    }

    @Test("A file that is damaged anywhere opens with its former content or throws a typed error, without a crash")
    func damagedFile() async throws {
        let whole = try await readAll()
        try database.close()
        let bytes = try Data(contentsOf: fixture.url())
        var refused = 0
        for offset in stride(from: 0, to: bytes.count, by: bytes.count / 400) {
            var changed = bytes
            for index in offset..<min(offset + 8, bytes.count) { changed[index] ^= 0xA5 }
            try changed.write(to: fixture.url("damaged.sqlite"))
            do {
                let keychain = try await fixture.open("damaged.sqlite")
                let secrets = try await keychain.copyMatching(.everything).map(\.secret.text)
                #expect(Set(secrets).isSubset(of: whole), "\(secrets)")
            } catch let error as KeychainError {
                _ = error.description
                refused += 1
            }
        }
        #expect(refused > 20)
    }
}
