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
        try await device.push(adding: "one")
        let hierarchy = fixture.hierarchy
        try FileManager.default.removeItem(at: fixture.share.appending(path: "\(hierarchy.registration)"))
        // What a device that knows an encrypted application says is tested below.
        for confused in (password == nil ? [device] : []) + [try fixture.device("new")] {
            let error = await #expect(throws: StoreSyncError.self) { try await confused.register().value }
            #expect(error?.code == .applicationIncomplete)
            for part in ["\(hierarchy.registration)", "backup", "move \(hierarchy.root)", "register --again", "copies"]
            {
                #expect(error?.message.contains(part) == true, "\(part): \(error as Any)")
            }
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

    @Test(
        "A device that knows an encrypted application names the files that are missing, and the remedy",
        arguments: [
            (["registration"], ["is missing", "move ", "register --again"]),
            (["passwordTest"], ["is missing", "restore it from a backup"]),
            (["salt"], ["is missing", "new state directory (--state)"]),
            (["passwordTest", "salt"], ["are missing", "remove application", "register --again"]),
            (["registration", "passwordTest", "salt"], ["are missing", "remove application", "register --again"]),
        ]
    )
    func encryption(lost: [String], remedy: [String]) async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("device")
        _ = try await device.register().value
        let hierarchy = fixture.hierarchy
        let files = [
            "registration": hierarchy.registration, "passwordTest": hierarchy.passwordTest, "salt": hierarchy.salt,
        ]
        for name in lost { try fixture.put(nil, at: "\(#require(files[name]))") }
        let error = await #expect(throws: StoreSyncError.self) { try await device.register().value }
        #expect(error?.code == .encryptionDowngraded)
        let message = error?.message ?? ""
        for part in remedy { #expect(message.contains(part), "\(part): \(message)") }
        for (name, path) in files where lost.contains(name) { #expect(message.contains("\(path)"), "\(message)") }
        let problems = try await device.verify().value.problems
        #expect(Set(problems.map(\.path)).isSubset(of: lost.compactMap { files[$0] }.map { "\($0)" }), "\(problems)")
        #expect(!problems.isEmpty)
    }

    @Test(
        "If only its directory is left of an encrypted application, starting over works after the directory is removed"
    )
    func emptyDirectory() async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("device")
        _ = try await device.register().value
        let root = fixture.url(fixture.hierarchy.root)
        try FileManager.default.removeItem(at: root)
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
        let again = { device.supervisor.add(device.registration(registersAgain: true)) }
        let error = await #expect(throws: StoreSyncError.self) { try await again().value }
        #expect(error?.message.contains("remove \(fixture.hierarchy.root) from the remote") == true, "\(error as Any)")
        try FileManager.default.removeItem(at: root)
        #expect(try await again().value.didCreateApplication)
    }
}
