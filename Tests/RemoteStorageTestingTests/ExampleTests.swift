import RemoteStorage
import RemoteStorageTesting
import Testing

@Suite("The documentation's examples", .timeLimit(.minutes(60)))
struct ExampleTests {
    // DOC: conformance
    @Test("My backend keeps every promise", arguments: BackendCheck.all)
    func keepsItsPromises(check: BackendCheck) async throws {
        try await check.run(on: InMemoryBackend())
    }
    // DOC: end

    @Test("Two simulated devices share one storage, and only one has faults")
    func devices() async throws {
        // DOC: devices
        let storage = InMemoryBackend()
        let laptop = SimulatedBackend(.apache, faults: SimulatedServer.apache.faults(0.1), seed: 7, storage: storage)
        let phone = SimulatedBackend(.apache, seed: 8, storage: storage)
        // DOC: end
        try await phone.write([1], to: RemotePath("a"), when: .always)
        #expect(try await storage.bytes(at: RemotePath("a")) == [1])
        for _ in 0..<100 { _ = try? await laptop.bytes(at: RemotePath("a")) }
        #expect(await !laptop.log.isEmpty)
        #expect(await phone.log.isEmpty)
    }
}
