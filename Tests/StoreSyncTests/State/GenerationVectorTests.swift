import OperationsTesting
import Testing

@testable import StoreSync

@Suite("A generation vector")
struct GenerationVectorTests {
    private typealias Fixture = StateFixture

    @Test("contains what was inserted and nothing else")
    func containsWhatWasInserted() {
        let vector = Fixture.vector(["phone": [Fixture.upload(3), Fixture.upload(5)]])
        #expect(vector.contains(client: "phone", Fixture.upload(5)))
        #expect(vector.contains(client: "phone", Fixture.upload(3)))
        #expect(!vector.contains(client: "phone", Fixture.upload(4)))
        #expect(!vector.contains(client: "phone", Fixture.upload(1)))
        #expect(!vector.contains(client: "laptop", Fixture.upload(3)))
    }

    @Test("tells two uploads of one generation apart, as a cloned identity makes them")
    func tellsUploadsApart() {
        let vector = Fixture.vector(["phone": [Fixture.upload(5, "A")]])
        #expect(!vector.contains(client: "phone", Fixture.upload(5, "B")))
    }

    @Test("lists uploads newest first and each once")
    func listsNewestFirst() {
        let vector = Fixture.vector(["phone": [2, 9, 4, 9].map { Fixture.upload($0) }])
        #expect(vector.entries["phone"]?.uploads.map(\.generation) == [9, 4, 2])
        #expect(vector.highestGeneration(of: "phone") == 9)
        #expect(vector.highestGeneration(of: "laptop") == nil)
    }

    @Test("keeps the eight newest uploads and sums the older ones up in the floor")
    func cutsTheList() {
        let vector = Fixture.vector(["phone": (1...12).map { Fixture.upload($0) }])
        #expect(vector.entries["phone"]?.uploads.map(\.generation) == [12, 11, 10, 9, 8, 7, 6, 5])
        #expect(vector.entries["phone"]?.floor == 4)
        #expect(vector.contains(client: "phone", Fixture.upload(4, "B")), "no one asks about those any more")
        #expect(!vector.contains(client: "phone", Fixture.upload(5, "B")))
    }

    @Test("restricted to a client, says nothing of the others")
    func restricts() {
        let vector = Fixture.vector(["phone": [Fixture.upload(1)], "laptop": [Fixture.upload(2)]])
        #expect(vector.restricted(to: "phone") == Fixture.vector(["phone": [Fixture.upload(1)]]))
        #expect(vector.restricted(to: "tablet") == GenerationVector())
    }

    @Test("merging is commutative, associative and idempotent, whatever is cut")
    func mergingIsALattice() throws {
        for seed in 0..<2_000 {
            var random = Seeded(seed)
            let (a, b, c) = try (random.vector(), random.vector(), random.vector())
            #expect(a.merging(b) == b.merging(a), "seed \(seed)")
            #expect(a.merging(b).merging(c) == a.merging(b.merging(c)), "seed \(seed)")
            #expect(a.merging(a) == a, "seed \(seed)")
            #expect(a.merging(GenerationVector()) == a, "seed \(seed)")
        }
    }

    @Test("merging and inserting never lose what was contained")
    func containmentIsMonotone() throws {
        for seed in 0..<500 {
            var random = Seeded(seed)
            let (a, b) = try (random.vector(), random.vector())
            let merged = a.merging(b)
            var inserted = a
            let (client, upload) = random.element()
            inserted.insert(client: client, upload)
            #expect(inserted.contains(client: client, upload), "seed \(seed)")
            for (client, upload) in Seeded.universe {
                let before = a.contains(client: client, upload)
                let either = before || b.contains(client: client, upload)
                #expect(!either || merged.contains(client: client, upload), "seed \(seed)")
                #expect(!before || inserted.contains(client: client, upload), "seed \(seed)")
            }
        }
    }

    @Test("the order of inserting does not show")
    func insertingCommutes() {
        for seed in 0..<500 {
            var random = Seeded(seed)
            let elements = (0..<20).map { _ in random.element() }
            func vector(_ elements: [(String, UploadReference)]) -> GenerationVector {
                elements.reduce(into: GenerationVector()) { $0.insert(client: $1.0, $1.1) }
            }
            #expect(vector(elements) == vector(elements.shuffled(using: &random)), "seed \(seed)")
        }
    }
}

/// Random vectors over a world so small that lists are cut, floors overtake uploads and generations clash.
private struct Seeded: RandomNumberGenerator {
    static let clients = ["laptop", "phone"]
    static let universe = clients.flatMap { client in
        (1...16).flatMap { generation in
            "AB".map { (client, StateFixture.upload(generation, $0)) }
        }
    }

    private var generator: SplitMix64

    init(_ seed: Int) { generator = SplitMix64(seed: UInt64(seed)) }

    mutating func next() -> UInt64 { generator.next() }

    mutating func element() -> (String, UploadReference) {
        Self.universe[Int.random(in: Self.universe.indices, using: &self)]
    }

    mutating func vector() throws -> GenerationVector {
        var vector = GenerationVector()
        for _ in 0..<Int.random(in: 0...20, using: &self) {
            let (client, upload) = element()
            vector.insert(client: client, upload)
        }
        let floor = Int.random(in: 0...16, using: &self)
        let floors = PropertyListValue.dictionary([
            "phone": .dictionary(["floor": .integer(floor), "uploads": .array([])])
        ])
        return vector.merging(try #require(GenerationVector(Bool.random(using: &self) ? floors : .dictionary([:]))))
    }
}
