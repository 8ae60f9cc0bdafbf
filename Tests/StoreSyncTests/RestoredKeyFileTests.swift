import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("A storage that was put back to a state before a change of the password", .timeLimit(.minutes(60)))
struct RestoredKeyFileTests {
    private func changePassword(to text: String, by device: Device) async throws -> Int {
        let change = PasswordChangeOperation(
            to: try Password.cheap(text),
            of: device.application,
            parameters: .interactive,
            backend: device.backend,
            state: device.state,
            delegate: { [password = device.password] _ in password.map { .encrypted($0) } ?? .unencrypted }
        )
        return try await device.supervisor.add(change).value
    }

    @Test(
        "A device that saw the change says what to do, and continues after the password was changed elsewhere",
        arguments: [false, true]
    )
    func putBack(byNewDevice: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        _ = try await a.register().value
        _ = try await b.register().value
        let before = try fixture.files()
        #expect(try await changePassword(to: "second", by: a) == 2)
        try fixture.restore(before)
        let error = await #expect(throws: StoreSyncError.self) { try await a.register().value }
        #expect(error?.code == .rolledBack)
        for part in ["change the password on a device", "--state"] {
            #expect(error?.message.contains(part) == true, "\(error as Any)")
        }
        let other = byNewDevice ? try fixture.device("new") : b
        #expect(try await changePassword(to: "third", by: other) == 2)
        _ = try await a.register().value
    }
}
