import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("Pushing and pulling between devices", .timeLimit(.minutes(60)))
struct RoundTripTests {
    @Test("What one device pushes, another pulls, and back", arguments: [true, false])
    func thereAndBack(inMemory: Bool) async throws {
        let fixture = try Fixture()
        let memory: InMemoryBackend? = inMemory ? InMemoryBackend() : nil
        let (a, b) = (try fixture.device("a", backend: memory), try fixture.device("b", backend: memory))
        try a.write("one", "two")
        let first = try await a.push().value
        #expect(first.generation == 1)
        let pulled = try await b.pull().value
        #expect(pulled.from == first.client)
        #expect(try b.notes() == ["one", "two"])
        try b.write("three")
        #expect(try await b.push().value.generation == 2)
        #expect(try await a.pull().value.generation == 2)
        #expect(try a.notes() == ["one", "two", "three"])
        let report = try await a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test("An unchanged store keeps its generation, on the device that pushed it and the device that pulled it")
    func unchanged() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        _ = try await b.pull().value
        for device in [a, b] {
            let again = try await device.push().value
            #expect(again.isUnchanged)
            #expect(again.generation == 1)
            #expect(try await device.pull().value.isUnchanged)
        }
    }
}
