import Foundation
import OperationsTesting
import SyncCryptography
import TestSupport
import Testing

@testable import Keychain

@Suite("Synchronizing keychains", .timeLimit(.minutes(60)))
struct SynchronizationTests {
    private static func item(_ account: String) -> KeychainItem {
        KeychainItem(service: "notes", account: account, isSynchronizable: true)
    }

    private static func query(_ account: String) -> KeychainQuery { KeychainQuery(item(account)) }

    @Test("K8, K9: An item that a device adds reaches the others by synchronization, as do its update and deletion")
    func travel() async throws {
        let devices = try await KeychainDevices(3)
        try await devices.keychains[0].add(SecretBytes("1"), as: Self.item("a"))
        try await devices.keychains[0].add(SecretBytes("here"), as: KeychainItem(service: "notes", account: "local"))
        #expect(try await devices.items(1) == [:])
        try await devices.synchronizeAll()
        for index in 0..<3 { #expect(try await devices.items(index) == ["a": "1"]) }
        try await devices.keychains[2].update(Self.query("a"), to: SecretBytes("2"))
        try await devices.synchronizeAll(2)
        for index in 0..<3 { #expect(try await devices.items(index) == ["a": "2"]) }
        try await devices.keychains[1].delete(Self.query("a"))
        try await devices.synchronizeAll(4)
        for index in 0..<3 {
            #expect(try await devices.items(index) == [:])
            #expect(try await devices.tombstones(index) == 0)
        }
        // The item can be added again, and the item of one device alone stayed there.
        try await devices.keychains[1].add(SecretBytes("3"), as: Self.item("a"))
        try await devices.synchronizeAll(2)
        for index in 0..<3 { #expect(try await devices.items(index) == ["a": "3"]) }
        #expect(try await devices.keychains[1].copyMatching(.everything).count == 1)
        #expect(try await devices.keychains[0].copyMatching(.everything).count == 2)
    }

    @Test("A deletion is remembered until the last registered client knows of it, and no longer")
    func tombstones() async throws {
        let devices = try await KeychainDevices(3)
        try await devices.keychains[0].add(SecretBytes("1"), as: Self.item("a"))
        try await devices.synchronizeAll(2)
        try await devices.keychains[0].delete(Self.query("a"))
        for _ in 0..<4 {
            try await devices.synchronize(0)
            try await devices.synchronize(1)
        }
        #expect(try await devices.tombstones(0) == 1, "the third doesn't know yet")
        #expect(try await devices.items(2) == ["a": "1"])
        try await devices.synchronizeAll(3)
        for index in 0..<3 { #expect(try await devices.tombstones(index) == 0) }
        #expect(try await devices.items(2) == [:])
    }

    @Test("R4, R15: A blitz empties one device and removes nothing from the others, not even items new to them")
    func blitz() async throws {
        let devices = try await KeychainDevices(2)
        try await devices.keychains[0].add(SecretBytes("1"), as: Self.item("a"))
        try await devices.synchronizeAll(2)
        try await devices.keychains[0].add(SecretBytes("2"), as: Self.item("published"))
        try await devices.synchronize(0)
        try await devices.keychains[0].add(SecretBytes("3"), as: Self.item("never left"))
        try await devices.keychains[0].blitz(.everything)
        #expect(try await devices.items(0) == [:])
        #expect(try await devices.tombstones(0) == 0)
        #expect(try await devices.items(1) == ["a": "1"])
        try await devices.synchronizeAll(2)
        for index in 0..<2 { #expect(try await devices.items(index) == ["a": "1", "published": "2"]) }
    }

    @Test("R15: A new client's blitz removes nothing from other devices, and keeps a deletion that was made before it")
    func blitzKeepsDeletions() async throws {
        let devices = try await KeychainDevices(2)
        for account in ["a", "b"] { try await devices.keychains[1].add(SecretBytes(account), as: Self.item(account)) }
        try await devices.keychains[0].blitz(.everything)
        try await devices.synchronizeAll(2)
        try await devices.keychains[0].delete(Self.query("a"))
        try await devices.keychains[0].blitz(.everything)
        try await devices.synchronizeAll(3)
        for index in 0..<2 { #expect(try await devices.items(index) == ["b": "b"]) }
    }

    @Test(
        "Concurrent edits converge: every device chooses the same edit, also if a later edit competes with a deletion"
    )
    func conflicts() async throws {
        let devices = try await KeychainDevices(3)
        try await devices.keychains[0].add(SecretBytes("0"), as: Self.item("a"))
        try await devices.synchronizeAll(2)
        try await devices.keychains[0].delete(Self.query("a"))
        try await devices.keychains[1].update(Self.query("a"), to: SecretBytes("1"))
        try await devices.keychains[1].update(Self.query("a"), to: SecretBytes("2"))
        try await devices.keychains[1].add(SecretBytes("from 1"), as: Self.item("b"))
        try await devices.keychains[2].add(SecretBytes("from 2"), as: Self.item("b"))
        try await devices.synchronizeAll(4)
        let items = try await devices.items(0)
        #expect(items["a"] == "2")
        #expect(try await devices.items(1) == items)
        #expect(try await devices.items(2) == items)
    }

    @Test("A device that was copied, or restored from a backup, loses no edit and reverts none")
    func copiedDevice() async throws {
        let devices = try await KeychainDevices(2)
        let fixture = devices.fixture
        try await devices.keychains[0].add(SecretBytes("1"), as: Self.item("a"))
        try await devices.synchronizeAll(2)
        try FileManager.default.copyItem(at: fixture.url("0.sqlite"), to: fixture.url("copy.sqlite"))
        let copy = try await fixture.open("copy.sqlite")
        // Both do an edit that would have the same stamp, and both publish as the same client.
        try await devices.keychains[0].add(SecretBytes("2"), as: Self.item("b"))
        try await devices.synchronizeAll()
        try await copy.add(SecretBytes("3"), as: Self.item("c"))
        let clients: Set<String> = ["client0", "client1"]
        let next = try #require(try await copy.merge(try await devices.files(), as: "client0", registered: clients))
        #expect(next.entries.values.count { $0.secret != nil } == 3)
        await devices.publish(next, of: 0)
        try await devices.synchronizeAll(3)
        for index in 0..<2 { #expect(try await devices.items(index) == ["a": "1", "b": "2", "c": "3"]) }
    }

    @Test("A backup made right after a publication restores no item that all clients have deleted since")
    func forgottenByAll() async throws {
        let devices = try await KeychainDevices(2)
        let fixture = devices.fixture
        try await devices.synchronizeAll()
        try await devices.keychains[0].add(SecretBytes("1"), as: Self.item("a"))
        let clients: Set<String> = ["client0", "client1"]
        let keychain = devices.keychains[0]
        let next = try #require(try await keychain.merge(devices.files(), as: "client0", registered: clients))
        await devices.publish(next, of: 0)
        try await keychain.notePublished(next)
        try FileManager.default.copyItem(at: fixture.url("0.sqlite"), to: fixture.url("backup.sqlite"))
        try await devices.synchronizeAll()
        try await devices.keychains[1].delete(Self.query("a"))
        try await devices.synchronizeAll(4)
        for index in 0..<2 { #expect(try await devices.tombstones(index) == 0) }
        let restored = try await fixture.open("backup.sqlite")
        #expect(try await restored.isSynchronized())
        _ = try await restored.merge(devices.files(), as: "client0", registered: clients)
        #expect(try await restored.replica().entries.isEmpty)
    }

    @Test("A keychain that was lost and created again for the same client keeps published items and its own new items")
    func lostKeychain() async throws {
        let devices = try await KeychainDevices(2)
        for account in ["a", "b", "c"] {
            try await devices.keychains[0].add(SecretBytes(account), as: Self.item(account))
        }
        try await devices.synchronizeAll(2)
        let new = try await devices.fixture.open("new.sqlite")
        try await new.add(SecretBytes("d"), as: Self.item("d"))
        let next = try await new.merge(try await devices.files(), as: "client0", registered: ["client0", "client1"])
        await devices.publish(try #require(next), of: 0)
        try await devices.synchronize(1)
        #expect(try await devices.items(1) == ["a": "a", "b": "b", "c": "c", "d": "d"])
    }

    @Test("An unreadable or foreign file changes nothing, and a client's lost file is written again")
    func badFiles() async throws {
        let devices = try await KeychainDevices(2)
        try await devices.keychains[0].add(SecretBytes("1"), as: Self.item("a"))
        try await devices.synchronizeAll(2)
        let good = try #require(await devices.remote["client0"])
        let before = try await devices.keychains[1].replica()
        for bad in [[], Array(good.dropLast()), good.reversed(), Array(good.prefix(104))] {
            await devices.replace(file: 0, by: bad)
            await #expect(throws: CryptographyError.self) { try await devices.synchronize(1) }
            #expect(try await devices.keychains[1].replica() == before)
        }
        // A client's file at another client's path.
        await devices.replace(file: 1, by: good)
        await devices.replace(file: 0, by: good)
        await #expect(throws: CryptographyError.self) { try await devices.synchronize(1) }
        await devices.remove(file: 0)
        await devices.remove(file: 1)
        try await devices.synchronizeAll(2)
        for index in 0..<2 { #expect(try await devices.items(index) == ["a": "1"]) }
        #expect(await devices.remote.count == 2)
    }

    @Test("Exceeding a keychain's limits, or the limit of its counter, is an error and changes nothing")
    func limits() async throws {
        let devices = try await KeychainDevices(1)
        let keychain = devices.keychains[0]
        try await keychain.add(SecretBytes("1"), as: Self.item("a"))
        let before = try await keychain.replica()
        let author = UUID()
        func file(_ counters: [UInt64]) throws -> KeychainFile {
            var entries: [ItemKey: ItemEntry] = [:]
            for counter in counters {
                let key = try ItemKey(service: "many", account: "\(counter)", accessGroup: "TEAM.many")
                entries[key] = ItemEntry(stamp: Stamp(counter: counter, replica: author), secret: SecretBytes(""))
            }
            return KeychainFile(replica: author, publication: UUID(), seen: [:], entries: entries)
        }
        let many = try file(Array(1...UInt64(KeychainLimits.items)))
        await expect(.full, "4096 items") {
            _ = try await keychain.merge(["b": many], as: "a", registered: ["a", "b"])
        }
        #expect(try await keychain.replica() == before)
        let last = try file([ReplicaClock.end - 1])
        _ = try await keychain.merge(["b": last], as: "a", registered: ["a", "b"])
        await expect(.full, "a new keychain") { try await keychain.update(Self.query("a"), to: SecretBytes("2")) }
        #expect(try await devices.items(0)["a"] == "1")
    }

    @Test(
        "After any order of edits, blitzes and crashes, four keychains converge and have nothing to publish"
    )
    func programs() async throws {
        for seed in TestDepth.seeds(quick: 2, ci: 6, deep: 300) {
            var generator = SplitMix64(seed: seed)
            let devices = try await KeychainDevices(4)
            for step in 0..<60 {
                let index = Int.random(in: 0..<4, using: &generator)
                let keychain = devices.keychains[index]
                let account = "\(Int.random(in: 0..<5, using: &generator))"
                do {
                    switch Int.random(in: 0..<10, using: &generator) {
                    case 0..<2: try await keychain.add(SecretBytes("\(step)"), as: Self.item(account))
                    case 2..<4: try await keychain.update(Self.query(account), to: SecretBytes("\(step)"))
                    case 4..<6: try await keychain.delete(Self.query(account))
                    case 6: try await keychain.blitz(Self.query(account))
                    case 7: try await devices.synchronize(index, crashes: true)
                    default: try await devices.synchronize(index)
                    }
                } catch let error as KeychainError {
                    #expect([.duplicateItem, .itemNotFound].contains(error.code), "seed \(seed): \(error)")
                }
            }
            try await devices.synchronizeAll(5)
            let items = try await devices.items(0)
            let published = await devices.remote
            for index in 0..<4 {
                #expect(try await devices.items(index) == items, "seed \(seed)")
                #expect(try await devices.tombstones(index) == 0, "seed \(seed)")
            }
            try await devices.synchronizeAll()
            #expect(await devices.remote == published, "seed \(seed)")
        }
    }
}
