import Foundation
import Testing

@testable import StoreChanges

@Suite("Errors of a store's file", .timeLimit(.minutes(60)))
struct StoreErrorTests {
    @Test("A store in a directory that can't be searched isn't taken for a missing store")
    func unreachable() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        _ = try fixture.app("laptop")
        _ = try fixture.open("laptop")
        // A link to itself is an error for every user. Permissions wouldn't hold back root.
        let directory = fixture.folder.appending(path: "loop").path
        try FileManager.default.createSymbolicLink(atPath: directory, withDestinationPath: directory)
        let url = URL(filePath: directory + "/notes.sqlite")
        let replica = fixture.folder.appending(path: "laptop.replica")
        #expect(FileManager.default.fileExists(atPath: replica.path))
        for replica in [nil, replica] {
            let error = #expect(throws: StoreChangesError.self) {
                try StoreSchema.requireStore(at: url, ofReplicaAt: replica)
            }
            #expect(error?.code == .storeNotFound)
            #expect(
                error?.message.hasPrefix("\(url.path) can't be read") == true
                    && error?.message.hasSuffix("check the permissions of its directory.") == true,
                "\(error as Any)"
            )
        }
    }
}
