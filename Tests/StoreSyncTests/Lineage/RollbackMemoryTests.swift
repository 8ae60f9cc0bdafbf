import Foundation
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The memory of rollbacks")
struct RollbackMemoryTests {
    private typealias Fixture = StateFixture

    private func manifest(_ name: UploadName, includes: Set<UploadName>) -> StoreManifest {
        StoreManifest(name: name, created: .distantPast, files: [], includes: includes)
    }

    @Test("The memory of rollbacks is empty before anything was opened")
    func empty() {
        #expect(RollbackMemory().missing(from: [], []).isEmpty)
        #expect(RollbackMemory().highestGeneration == 0)
    }

    @Test("An upload that was opened is missing unless it exists, or an existing upload includes it")
    func opened() {
        var memory = RollbackMemory()
        memory.open(Fixture.name(5), includes: [Fixture.name(4)])
        #expect(memory.missing(from: [Fixture.name(4)], []) == [Fixture.name(5)])
        #expect(memory.missing(from: [Fixture.name(5)], []).isEmpty)
        let later = manifest(Fixture.name(7), includes: [Fixture.name(5)])
        #expect(memory.missing(from: [later.name], [later]).isEmpty)
        let beside = manifest(Fixture.name(7, of: "laptop"), includes: [Fixture.name(4)])
        #expect(memory.missing(from: [beside.name], [beside]) == [Fixture.name(5)])
    }

    @Test("The uploads that an opened upload includes needn't exist any more")
    func superseded() {
        var memory = RollbackMemory()
        memory.open(Fixture.name(2, of: "laptop"), includes: [])
        memory.open(Fixture.name(5), includes: [Fixture.name(2, of: "laptop")])
        #expect(memory.newest == [Fixture.name(5)])
    }

    @Test("Two uploads that don't include each other are both remembered, even of one client and generation")
    func diverged() {
        var memory = RollbackMemory()
        memory.open(Fixture.name(5, "A"), includes: [])
        memory.open(Fixture.name(5, "B"), includes: [])
        #expect(memory.newest.count == 2)
        #expect(memory.missing(from: [Fixture.name(5, "A")], []) == [Fixture.name(5, "B")])
    }

    @Test("Opening an older upload that a remembered upload includes adds nothing")
    func older() {
        var memory = RollbackMemory()
        memory.open(Fixture.name(5), includes: [Fixture.name(4)])
        memory.open(Fixture.name(4), includes: [], isIncluded: true)
        #expect(memory.newest == [Fixture.name(5)])
    }

    @Test("An accepted rollback gives up the missing uploads and nothing else")
    func acceptance() {
        var memory = RollbackMemory()
        memory.open(Fixture.name(9), includes: [])
        memory.open(Fixture.name(3, of: "laptop"), includes: [])
        memory.accept(Fixture.name(4), givingUp: [Fixture.name(9)])
        #expect(memory.newest == [Fixture.name(4), Fixture.name(3, of: "laptop")])
    }
}
