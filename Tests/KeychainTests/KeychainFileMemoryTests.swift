import Foundation
import Testing

@testable import Keychain

@Suite("The record of the clients' files that were read")
struct KeychainFileMemoryTests {
    private static let (own, other, third) = (UUID(), UUID(), UUID())

    private static func file(_ replica: UUID, _ seen: [UUID: UInt64]) -> KeychainFile {
        KeychainFile(replica: replica, publication: UUID(), seen: seen, entries: [:])
    }

    @Test("A file that contains fewer edits than its predecessor is older; a file with the same or more edits isn't")
    func older() {
        var memory = KeychainFileMemory()
        let file = Self.file(Self.own, [Self.own: 3, Self.other: 5])
        #expect(!memory.isOlder(file, of: "a"))
        memory.note(file, of: "a")
        let lesser: [[UUID: UInt64]] = [
            [:], [Self.own: 3], [Self.own: 2, Self.other: 5], [Self.own: 9, Self.other: 4],
        ]
        for seen in lesser {
            #expect(memory.isOlder(Self.file(Self.own, seen), of: "a"), "\(seen)")
            // No file of the other client was read.
            #expect(!memory.isOlder(Self.file(Self.own, seen), of: "b"))
        }
        #expect(!memory.isOlder(file, of: "a"))
        #expect(!memory.isOlder(Self.file(Self.own, [Self.own: 3, Self.other: 5, Self.third: 1]), of: "a"))
    }

    @Test("A file of a new replica isn't older; a file of a former replica is, even if none of its files was read")
    func lives() throws {
        var memory = KeychainFileMemory()
        memory.note(Self.file(Self.own, [Self.own: 3]), of: "a")
        #expect(!memory.isOlder(Self.file(Self.other, [:]), of: "a"))
        memory.note(Self.file(Self.other, [Self.other: 4, Self.third: 2]), of: "a")
        #expect(memory.isOlder(Self.file(Self.own, [Self.own: 8]), of: "a"))
        // The last file has seen this replica, so it existed before that file.
        #expect(memory.isOlder(Self.file(Self.third, [Self.third: 2]), of: "a"))
        #expect(!memory.isOlder(Self.file(Self.own, [Self.own: 8, Self.other: 4, Self.third: 2]), of: "a"))
        let copy = try JSONDecoder().decode(KeychainFileMemory.self, from: JSONEncoder().encode(memory))
        #expect(copy == memory && copy.clients == ["a"])
    }

    @Test("Noting an older file changes nothing, and former replicas are forgotten only beyond the limit")
    func bounds() {
        var memory = KeychainFileMemory()
        memory.note(Self.file(Self.own, [Self.own: 3]), of: "a")
        let before = memory
        memory.note(Self.file(Self.own, [Self.own: 2]), of: "a")
        #expect(memory == before)
        let lives = (0..<KeychainFileMemory.rememberedLives).map { _ in UUID() }
        for life in lives { memory.note(Self.file(life, [Self.third: 1]), of: "a") }
        for life in lives.dropLast() + [Self.own] { #expect(memory.isOlder(Self.file(life, [:]), of: "a")) }
        memory.note(Self.file(UUID(), [Self.third: 1]), of: "a")
        #expect(!memory.isOlder(Self.file(Self.own, [:]), of: "a"))
    }
}
