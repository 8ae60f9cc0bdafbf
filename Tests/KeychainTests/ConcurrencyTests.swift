import FileSupport
import Foundation
import GRDB
import SyncCryptography
import Testing
import ThreadSupport

@testable import Keychain

@Suite("Several keychains on one file", .timeLimit(.minutes(60)))
struct ConcurrencyTests {
    private let fixture: KeychainFixture

    init() throws {
        fixture = try KeychainFixture()
    }

    @Test("Two keychains that edit concurrently lose nothing, never deadlock, and never issue a stamp twice")
    func edits() async throws {
        let keychains = [try await fixture.open(), try await fixture.open()]
        let count = 40
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, keychain) in keychains.enumerated() {
                for number in 0..<count {
                    group.addTask {
                        let item = KeychainItem(
                            service: "s\(index)",
                            account: "\(number)",
                            isSynchronizable: number % 2 == 0
                        )
                        try await keychain.add(SecretBytes("\(number)"), as: item)
                        try await keychain.update(KeychainQuery(item), to: SecretBytes("\(number)!"))
                        #expect(try await keychain.secret(matching: KeychainQuery(item)).text == "\(number)!")
                    }
                }
            }
            try await group.waitForAll()
        }
        for keychain in keychains { #expect(try await keychain.copyMatching(.everything).count == 2 * count) }
        let file = try #require(try await keychains[0].merge([:], as: "a", registered: ["a"]))
        #expect(Set(file.entries.values.map(\.stamp)).count == count)
        #expect(file.entries.values.map(\.stamp.counter).max() == UInt64(2 * count))
    }

    @Test("Of many concurrent additions of the same item one succeeds, and the others throw duplicateItem")
    func race() async throws {
        let keychains = [try await fixture.open(), try await fixture.open()]
        let item = KeychainItem(service: "s", account: "a")
        let winners = await withTaskGroup(of: String?.self) { group in
            for number in 0..<20 {
                group.addTask {
                    do {
                        try await keychains[number % 2].add(SecretBytes("\(number)"), as: item)
                        return "\(number)"
                    } catch {
                        #expect((error as? KeychainError)?.code == .duplicateItem, "\(error)")
                        return nil
                    }
                }
            }
            return await group.reduce(into: []) { $0 += [$1].compactMap(\.self) }
        }
        #expect(try await keychains[0].copyMatching(KeychainQuery(item)).map(\.secret.text) == winners)
    }

    @Test("A keychain that another program has locked throws busy with a remedy, and works afterwards")
    func busy() async throws {
        let keychain = try await fixture.open(options: .init(busyTimeout: 0.01))
        let item = KeychainItem(service: "s", account: "a")
        try await keychain.add(SecretBytes("1"), as: item)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.url().path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN EXCLUSIVE") }
        await expect(.busy, "Try again") { try await keychain.update(KeychainQuery(item), to: SecretBytes("2")) }
        await expect(.busy) { _ = try await keychain.copyMatching(.everything) }
        await expect(.busy) { _ = try await fixture.open(options: .init(busyTimeout: 0.01)) }
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await keychain.update(KeychainQuery(item), to: SecretBytes("2"))
        #expect(try await keychain.secret(matching: KeychainQuery(item)).text == "2")
    }

    @Test("A change that is interrupted before its commit changes nothing")
    func interruption() async throws {
        struct Crash: Error {}
        let crashes = Locked(false)
        let keychain = try await fixture.open(
            options: .init(steps: StepObserver { _ in if crashes.withLock({ $0 }) { throw Crash() } })
        )
        let items = ["a", "b"].map { KeychainItem(service: "s", account: $0, isSynchronizable: true) }
        for item in items { try await keychain.add(SecretBytes(item.account), as: item) }
        crashes.withLock { $0 = true }
        let changes: [() async throws -> Void] = [
            { try await keychain.add(SecretBytes("c"), as: KeychainItem(service: "s", account: "c")) },
            { try await keychain.update(KeychainQuery(service: "s", synchronizable: .any), to: SecretBytes("x")) },
            { try await keychain.delete(KeychainQuery(items[0])) },
            { try await keychain.blitz(.everything) },
            { try await keychain.changeLock(to: .passphrase(try Password("p"), parameters: .interactive)) },
            { _ = try await keychain.merge([:], as: "a", registered: ["a"]) },
        ]
        let before = try await keychain.replica()
        for change in changes {
            await #expect(throws: Crash.self) { try await change() }
            #expect(try await keychain.copyMatching(.everything).map(\.secret.text) == ["a", "b"])
            #expect(try await keychain.replica() == before)
        }
        #expect(try await fixture.open().copyMatching(.everything).count == 2)
    }
}
