import Foundation
import Operations
import RemoteStorage
import StoreSync
import Testing

// The code between the marks is also in the documentation.

@Suite("What you can rely on", .timeLimit(.minutes(60)))
struct WhatYouCanRelyOnTests {
    @Test("The example of a verification reports no problem of an intact remote, and a store that is missing")
    func verification() async throws {
        let fixture = try Fixture()
        let store = fixture.folder.appending(path: "notes.sqlite")
        try Store.write(["one"], to: store)
        let delegate = UnencryptedDelegate()
        let manager = ApplicationSyncManager(
            application: fixture.application,
            clientDescription: "my laptop",
            backend: LocalFolderBackend(root: fixture.share),
            state: try StateDirectory(url: fixture.folder.appending(path: "state")),
            delegate: delegate
        )
        let upload = try await manager.document(fixture.document).upload(storeAt: store).value
        // DOC: verify
        let report = try await manager.verify().value
        print("\(report.files) files, \(report.problems.count) problems")
        for problem in report.problems { print("\(problem.path): \(problem.message)") }
        // DOC: end
        #expect(report.files > 0)
        #expect(report.problems.isEmpty, "\(report)")

        let uploads = fixture.share.appending(
            path: "\(fixture.application)/Documents/\(fixture.document)/WholeStore/\(upload.client)"
        )
        let names = try FileManager.default.contentsOfDirectory(atPath: uploads.path)
        let folder = try #require(names.first { $0.hasPrefix("\(upload.generation)-") })
        try FileManager.default.removeItem(at: uploads.appending(path: "\(folder)/WholeStore.ticdsync"))
        #expect(try await !manager.verify().value.problems.isEmpty)
        withExtendedLifetime(delegate) {}
    }
}
