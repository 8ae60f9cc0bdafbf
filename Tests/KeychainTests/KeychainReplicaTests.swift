import Foundation
import SyncCryptography
import Testing

@testable import Keychain

@Suite("Merging keychains")
struct KeychainReplicaTests {
    /// A client, and the file that it published last.
    private struct Client {
        let name: String
        var replica = KeychainReplica(clock: ReplicaClock(replica: UUID()))
        var file: KeychainFile?

        mutating func set(_ key: ItemKey, to value: String?) throws {
            let stamp = try replica.clock.nextStamp()
            replica.entries[key] = ItemEntry(stamp: stamp, secret: value.map { SecretBytes($0) })
        }

        mutating func synchronize(_ files: [KeychainFile?], registered: Set<String>) throws {
            var byClient = [name: file].compactMapValues(\.self)
            for (index, file) in files.enumerated() { byClient["other\(index)"] = file }
            file = try replica.merge(byClient, as: name, registered: registered, identifier: UUID.init) ?? file
        }

        mutating func synchronize(_ others: [Client], _ registered: Set<String>) throws {
            var files = [name: file].compactMapValues(\.self)
            for other in others { files[other.name] = other.file }
            file = try replica.merge(files, as: name, registered: registered, identifier: UUID.init) ?? file
        }
    }

    private let key: ItemKey
    private let otherKey: ItemKey

    init() throws {
        key = try ItemKey(service: "s", account: "a", accessGroup: "g")
        otherKey = try ItemKey(service: "s", account: "b", accessGroup: "g")
    }

    @Test("An item that is added again survives an old file with its deletion, even if all clients forgot that")
    func forgottenDeletion() throws {
        var first = Client(name: "first")
        for value in ["1", "2", "3", nil] { try first.set(key, to: value) }
        try first.synchronize([], registered: ["first"])
        let old = try #require(first.file)
        try first.synchronize([], registered: ["first"])
        #expect(old.entries[key] != nil && first.file?.entries.isEmpty == true)
        var second = Client(name: "second")
        try second.synchronize([first.file], registered: ["second", "other0"])
        try second.set(key, to: "new")
        try second.synchronize([old], registered: ["second", "other0"])
        #expect(second.replica.entries[key]?.secret?.text == "new")
        try first.synchronize([second.file], registered: ["first", "other0"])
        #expect(first.replica.entries[key]?.secret?.text == "new")
    }

    @Test("An old file with an item that was deleted and forgotten doesn't restore it on any client")
    func forgottenItem() throws {
        var first = Client(name: "first")
        try first.set(key, to: "1")
        try first.synchronize([], registered: ["first"])
        let old = try #require(first.file)
        try first.set(key, to: nil)
        for _ in 0..<2 { try first.synchronize([], registered: ["first"]) }
        #expect(first.replica.entries.isEmpty)
        // A new client, which reads the old file first.
        var second = Client(name: "second")
        try second.synchronize([old], registered: ["second", "other0"])
        #expect(second.replica.entries[key] != nil)
        try first.synchronize([second.file], registered: ["first", "other0"])
        #expect(first.replica.entries.isEmpty)
        try second.synchronize([first.file], registered: ["second", "other0"])
        #expect(second.replica.entries.isEmpty)
    }

    /// Returns a client that has deleted the item and published that, and another that has added it again since.
    private func readded() throws -> (first: Client, second: Client) {
        let registered: Set<String> = ["first", "second"]
        var (first, second) = (Client(name: "first"), Client(name: "second"))
        for value in ["1", "2"] { try first.set(key, to: value) }
        try first.synchronize([second], registered)
        try second.synchronize([first], registered)
        try first.set(otherKey, to: "1")
        try first.set(key, to: nil)
        try first.synchronize([second], registered)
        try second.synchronize([first], registered)
        try second.set(key, to: "added again")
        try second.synchronize([first], registered)
        return (first, second)
    }

    @Test("After a blitz a deletion that may be unpublished doesn't overrule an edit that knew of it")
    func blitzAfterDeletion() throws {
        var (first, second) = try readded()
        first.replica.blitz([], as: UUID())
        for _ in 0..<2 {
            try first.synchronize([second], ["first", "second"])
            try second.synchronize([first], ["first", "second"])
        }
        for client in [first, second] { #expect(client.replica.entries[key]?.secret?.text == "added again") }
    }

    @Test("A keychain that is restored from a backup doesn't revert edits that knew of those in the backup")
    func restoredBackup() throws {
        let registered: Set<String> = ["first", "second"]
        var (first, second) = (Client(name: "first"), Client(name: "second"))
        for key in [otherKey, key] { try first.set(key, to: "1") }
        try first.synchronize([second], registered)
        let backup = first.replica
        try second.synchronize([first], registered)
        try second.set(key, to: "2")
        try second.synchronize([first], registered)
        try first.synchronize([second], registered)
        first.replica = backup
        for _ in 0..<2 {
            try first.synchronize([second], registered)
            try second.synchronize([first], registered)
        }
        for client in [first, second] { #expect(client.replica.entries[key]?.secret?.text == "2") }
    }

    @Test("Of two edits with the same stamp, every device chooses the same")
    func sameStamp() throws {
        let stamp = Stamp(counter: 1, replica: UUID())
        let entries = [nil, "", "a", "ab", "b"].map { ItemEntry(stamp: stamp, secret: $0.map { SecretBytes($0) }) }
        for (left, entry) in entries.enumerated() {
            for (right, other) in entries.enumerated() {
                // A tombstone wins, then the greater bytes.
                let wins = left != right && (left == 0 || (right != 0 && left > right))
                #expect(entry.wins(over: other) == wins, "\(left), \(right)")
            }
        }
    }

    @Test("A client that claims to have seen edits that don't exist yet makes no edit disappear")
    func falseClaim() throws {
        var first = Client(name: "first")
        try first.set(key, to: "1")
        let liar = KeychainFile(
            replica: UUID(),
            publication: UUID(),
            seen: [first.replica.clock.replica: 1 << 40],
            entries: [:]
        )
        try first.synchronize([liar], registered: ["first", "other0"])
        #expect(first.replica.entries[key]?.secret?.text == "1")
        try first.synchronize([liar], registered: ["first", "other0"])
        #expect(first.replica.entries[key]?.secret?.text == "1")
    }
}
