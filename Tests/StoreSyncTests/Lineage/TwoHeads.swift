import Operations
import RemoteStorage

@testable import StoreSync

/// Two devices with a document, of which `b` has pushed an edit that `a` doesn't have.
struct TwoHeads {
    let fixture: Fixture
    let backend = InMemoryBackend()
    let a: Device
    let b: Device
    let clientB: RemoteIdentifier

    /// Creates the devices.
    ///
    /// - Parameter prepare: What `b` does between its edit and its push.
    /// - Throws: The errors of `prepare` and of the devices.
    init(_ prepare: (Device) async throws -> Void = { _ in }) async throws {
        fixture = try Fixture()
        (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        try await a.push(adding: "base")
        _ = try await b.pull().value
        try b.write("from b")
        try await prepare(b)
        clientB = try await b.push().value.client
    }

    /// Returns device `a`, which dies before a change of its memory.
    func dying(before change: String) throws -> Device {
        try fixture.device("a", backend: backend) { moment in
            guard moment == "before \(change)" else { return }
            throw RemoteError(.unavailable, "The device is dead.")
        }
    }
}
