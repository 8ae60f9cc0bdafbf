import Foundation
import Keychain
import Operations
import RemoteStorage
import StoreChanges
import StoreSync
import SyncCryptography
import Testing

@Suite("What an alert shows of an error", .timeLimit(.minutes(60)))
struct LocalizedErrorTests {
    static let errors: [any Error] = [
        StoreSyncError(.busy, "Try again.", cause: RemoteError(.unavailable, "The cause.")),
        RemoteError(.unavailable, "Try again."),
        KeychainError(.busy, "Try again."),
        CryptographyError(.wrongPassword, "Try again."),
        StoreChangesError(.busy, "Try again."),
    ]

    @Test("An error's localized description is its message", arguments: errors.indices)
    func messages(_ index: Int) {
        #expect(Self.errors[index].localizedDescription == "Try again.")
    }

    @Test("An error of the storage names its path once, and says that it's on the remote")
    func path() throws {
        let path = try RemotePath("notes/info")
        let naming = StoreSyncError(RemoteError(.notAllowed, "“\(path)” is forbidden.", path: path))
        #expect(naming.message == "“notes/info” is forbidden. (on the remote)")
        let other = StoreSyncError(RemoteError(.notAllowed, "It's forbidden.", path: path))
        #expect(other.message == "It's forbidden. (notes/info on the remote)")
    }

    @Test("The localized description of a supervisor's error is its message, and its description has the code too")
    func supervisor() async throws {
        let supervisor = OperationSupervisor()
        await supervisor.shutdown(grace: .zero)
        let error = await #expect(throws: OperationError.self) { try await supervisor.add { _ in }.value }
        #expect(error?.code == .shutDown)
        let message = try #require(error?.message)
        #expect(error?.localizedDescription == message)
        #expect(error?.description == "shutDown: \(message)")
    }
}
