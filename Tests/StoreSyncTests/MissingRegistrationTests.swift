import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("An application whose registration is missing on the remote", .timeLimit(.minutes(60)))
struct MissingRegistrationTests {
    @Test("The error says how to start over, and starting over works", arguments: [nil, "correct horse"])
    func startingOver(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let device = try fixture.device("device")
        try device.write("one")
        _ = try await device.push().value
        let hierarchy = ApplicationHierarchy(fixture.application)
        try FileManager.default.removeItem(at: fixture.share.appending(path: "\(hierarchy.registration)"))
        // To a new device, a tree without encryption is TICoreDataSync's.
        let confused = password == nil ? device : try fixture.device("new")
        let error = await #expect(throws: StoreSyncError.self) { try await confused.register().value }
        #expect(error?.code == .applicationIncomplete)
        for part in ["\(hierarchy.registration)", "backup", "move \(hierarchy.root)", "register --again", "copies"] {
            #expect(error?.message.contains(part) == true, "\(part): \(error as Any)")
        }
        try FileManager.default.moveItem(
            at: fixture.share.appending(path: "\(hierarchy.root)"),
            to: fixture.folder.appending(path: "moved")
        )
        _ = try await device.supervisor.add(device.registration(registersAgain: true)).value
        let copy = fixture.folder.appending(path: "copy.sqlite")
        try FileManager.default.copyItem(at: device.store, to: copy)
        _ = try await device.push(copy).value
        let other = try fixture.device("other")
        _ = try await other.pull().value
        #expect(try other.notes() == ["one"])
    }
}
