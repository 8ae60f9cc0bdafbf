import Foundation
import Operations
import Testing

@testable import StoreSync

@Suite("A storage that was put back to a state before a change of the password", .timeLimit(.minutes(60)))
struct RestoredKeyFileTests {
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
        #expect(try await a.changePassword(to: "second") == 2)
        try fixture.restore(before)
        let error = await #expect(throws: StoreSyncError.self) { try await a.register().value }
        #expect(error?.code == .rolledBack)
        for part in ["change the password on a device", "--state", "at the same time has overwritten it"] {
            #expect(error?.message.contains(part) == true, "\(error as Any)")
        }
        let other = byNewDevice ? try fixture.device("new") : b
        #expect(try await other.changePassword(to: "third") == 2)
        let warnings = try await a.register().value.warnings
        #expect(warnings.contains { $0.contains("after an older key file was put back") }, "\(warnings)")
    }
}
