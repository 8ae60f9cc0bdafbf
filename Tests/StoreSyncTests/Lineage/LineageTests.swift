import Foundation
import Testing

@testable import StoreSync

@Suite("The rules of lineage")
struct LineageTests {
    private func name(_ generation: Int, _ client: String = "phone") -> UploadName {
        StateFixture.name(generation, of: client)
    }

    private func manifest(_ name: UploadName, includes: Set<UploadName> = []) -> StoreManifest {
        StoreManifest(name: name, created: .distantPast, files: [], includes: includes)
    }

    @Test("An upload is a head if and only if no other upload includes it")
    func heads() {
        let (first, second, beside) = (name(1), name(2), name(2, "laptop"))
        let manifests = [manifest(first), manifest(second, includes: [first]), manifest(beside, includes: [first])]
        #expect(Lineage.heads(of: manifests).map(\.name) == [beside, second])
        let settled = manifests + [manifest(name(3), includes: [first, second, beside])]
        #expect(Lineage.heads(of: settled).map(\.name) == [name(3)])
        #expect(
            Lineage.heads(of: [manifest(name(1)), manifest(name(9))]).count == 2,
            "a higher generation alone includes nothing"
        )
    }

    @Test("A store contains its parents and the uploads that their manifests include")
    func contained() {
        let manifests = [
            manifest(name(1)), manifest(name(2), includes: [name(1)]), manifest(name(3), includes: [name(2)]),
            manifest(name(2, "laptop"), includes: [name(1)]),
        ]
        #expect(Lineage.contained(in: [name(3)], manifests) == [name(1), name(2), name(3)])
        #expect(Lineage.contained(in: [name(3)], []) == [name(3)])
        #expect(Lineage.contained(in: [], manifests).isEmpty)
    }

    @Test("An upload is missing because it's too old only if more uploads came after it than a manifest names")
    func reasons() {
        let newest = manifest(name(300, "laptop"))
        #expect(!Lineage.reasons(forMissing: name(44), among: [newest]).contains("256"))
        #expect(Lineage.reasons(forMissing: name(43), among: [manifest(name(9)), newest]).contains("256"))
    }

    @Test("A manifest names all existing uploads that its store contains, and the 256 newest of the removed ones")
    func named() {
        let there = Set((1...300).map { name($0) })
        let gone = Set((301...700).map { name($0) })
        let named = Lineage.named(of: there.union(gone), onRemote: there.union([name(1, "laptop")]))
        #expect(named.isSuperset(of: there))
        #expect(!named.contains(name(1, "laptop")))
        #expect(named.subtracting(there) == Set((445...700).map { name($0) }))
    }
}
