import Testing

@testable import StoreSync

@Suite("The memory of rollbacks")
struct RollbackMemoryTests {
    private typealias Fixture = StateFixture

    fileprivate func manifest(
        _ client: String,
        _ generation: Int,
        _ letter: Character = "A",
        includes: [String: [Int]] = [:]
    ) -> OpenedManifest {
        OpenedManifest(
            client: client,
            upload: Fixture.upload(generation, letter),
            includes: Fixture.vector(includes.mapValues { $0.map { Fixture.upload($0) } })
        )
    }

    fileprivate struct OpenedManifest {
        var client: String
        var upload: UploadReference
        var includes: GenerationVector
    }

    @Test("knows of no rollback before anything was opened")
    func empty() {
        #expect(!RollbackMemory().isRolledBack(client: "phone", generation: 1))
    }

    @Test("of the opened client: lower generations are rolled back, the same and higher ones aren't")
    func openedClient() {
        var memory = RollbackMemory()
        memory.open(manifest("phone", 5))
        #expect(memory.isRolledBack(client: "phone", generation: 4))
        #expect(!memory.isRolledBack(client: "phone", generation: 5))
        #expect(!memory.isRolledBack(client: "phone", generation: 6))
        #expect(!memory.isRolledBack(client: "laptop", generation: 1))
    }

    @Test("of a client that the opened store contains: even that generation is rolled back")
    func supersededClient() {
        var memory = RollbackMemory()
        memory.open(manifest("phone", 5, includes: ["laptop": [2, 4]]))
        #expect(memory.isRolledBack(client: "laptop", generation: 4))
        #expect(!memory.isRolledBack(client: "laptop", generation: 5), "it may be another branch")
    }

    @Test("a former generation of the head's own client is superseded, the head isn't")
    func ownPredecessor() {
        var memory = RollbackMemory()
        memory.open(manifest("phone", 5, includes: ["phone": [3, 5]]))
        #expect(memory.superseded["phone"] == 3)
        #expect(!memory.isRolledBack(client: "phone", generation: 5))
    }

    @Test("a floor that covers the head supersedes only what is below the head")
    func ownFloor() throws {
        let floor = PropertyListValue.dictionary(["floor": .integer(9), "uploads": .array([])])
        let includes = try #require(GenerationVector(.dictionary(["phone": floor])))
        var memory = RollbackMemory()
        memory.open(OpenedManifest(client: "phone", upload: Fixture.upload(5), includes: includes))
        #expect(memory.superseded["phone"] == 4)
        #expect(!memory.isRolledBack(client: "phone", generation: 5))
    }

    @Test("rises and never falls")
    func rises() {
        var memory = RollbackMemory()
        memory.open(manifest("phone", 5, includes: ["laptop": [4]]))
        memory.open(manifest("phone", 3, includes: ["laptop": [2]]))
        #expect(memory.opened["phone"] == 5)
        #expect(memory.superseded["laptop"] == 4)
        memory.open(manifest("laptop", 7, includes: ["phone": [5]]))
        #expect(memory.isRolledBack(client: "phone", generation: 5))
        #expect(!memory.isRolledBack(client: "laptop", generation: 7))
    }

    @Test("two uploads of one generation, as a cloned identity makes them, are no rollback of each other")
    func clones() {
        var memory = RollbackMemory()
        memory.open(manifest("phone", 5, "A"))
        #expect(!memory.isRolledBack(client: "phone", generation: 5))
        memory.open(manifest("phone", 5, "B"))
        #expect(!memory.isRolledBack(client: "phone", generation: 5))
    }

    @Test("an accepted rollback sets the memory to exactly that manifest")
    func acceptance() {
        var memory = RollbackMemory()
        memory.open(manifest("phone", 9, includes: ["laptop": [8], "tablet": [7]]))
        memory.accept(manifest("phone", 4, includes: ["laptop": [3]]))
        #expect(!memory.isRolledBack(client: "phone", generation: 4))
        #expect(!memory.isRolledBack(client: "laptop", generation: 8))
        #expect(memory.isRolledBack(client: "laptop", generation: 3))
        #expect(!memory.isRolledBack(client: "tablet", generation: 7))
        var fresh = RollbackMemory()
        fresh.open(manifest("phone", 4, includes: ["laptop": [3]]))
        #expect(memory == fresh)
    }
}

extension RollbackMemory {
    fileprivate mutating func open(_ manifest: RollbackMemoryTests.OpenedManifest) {
        open(client: manifest.client, manifest.upload, includes: manifest.includes)
    }

    fileprivate mutating func accept(_ manifest: RollbackMemoryTests.OpenedManifest) {
        accept(client: manifest.client, manifest.upload, includes: manifest.includes)
    }
}
