import Foundation
import Testing

@testable import StoreSync

@Suite("The files of documents in a state directory", .timeLimit(.minutes(60)))
struct StateDirectoryFileTests {
    private let fixture: StateFixture
    private let state: StateDirectory

    init() throws {
        fixture = try StateFixture()
        state = try fixture.open()
    }

    /// Creates all kinds of files of a document with a store.
    ///
    /// Returns the files of transfers and of applied sets.
    private func make(_ key: DocumentKey) throws -> (transfers: [URL], applied: URL) {
        try state.commitPull(StateFixture.store("/a", of: key))
        let journals = [state.pushJournal(of: key).url, state.pullJournal(of: "/a", in: key).url]
        let transfers = journals + [state.pushedBlocks(of: key).url]
        for url in transfers {
            let directory = url.deletingLastPathComponent()
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            try Data([1]).write(to: url)
        }
        let file = fixture.sibling(UUID().uuidString)
        try Data([2]).write(to: file)
        try state.appliedSets(for: "/a", in: key).stage(.appliedSyncChangeSets, from: file)
        try state.appliedSets(for: "/a", in: key).commit()
        return (transfers, state.url.appending(path: "applied/\(key.fileName("/a"))"))
    }

    private func exists(_ url: URL) -> Bool { FileManager.default.fileExists(atPath: url.path) }

    @Test(
        "A document's files in the state directory are removed with a removed or replaced application",
        arguments: ["removed", "replaced"]
    )
    func forgotten(change: String) throws {
        let (gone, kept) = (
            try make(StateFixture.diary), try make(DocumentKey(application: StateFixture.tasks, document: "diary"))
        )
        if change == "removed" {
            try state.commitRemoval(of: StateFixture.notes)
        } else {
            let replacement = BegunReplacement(epoch: UUID().uuidString, client: "phone", formerEpoch: nil)
            let pin = ApplicationPin(encryption: nil, epoch: replacement.epoch, passwordVersion: nil)
            try state.commitReplacement(replacement, pin, for: StateFixture.notes)
        }
        #expect(!gone.transfers.contains(where: exists) && !exists(gone.applied))
        #expect(kept.transfers.allSatisfy(exists) && exists(kept.applied))
    }

    @Test("What an operation records after the removal of its application is forgotten by the next registration")
    func outlasted() throws {
        try state.commitRemoval(of: StateFixture.notes)
        try state.commitPull(StateFixture.store("/a", of: StateFixture.diary))
        try state.setIntegrityKey("former", for: StateFixture.diary)
        let pin = ApplicationPin(encryption: nil, epoch: "two", passwordVersion: nil)
        try state.setPin(pin, for: StateFixture.notes)
        #expect(try state.integrityKey(for: StateFixture.diary) == nil)
        #expect(try state.stores(of: StateFixture.diary).isEmpty)
    }

    @Test("Files of transfers are removed when the application is another one, and the stores keep their files")
    func otherEpoch() throws {
        let key = StateFixture.notes
        try state.setPin(ApplicationPin(encryption: nil, epoch: "one", passwordVersion: nil), for: key)
        let files = try make(StateFixture.diary)
        try state.setPin(ApplicationPin(encryption: nil, epoch: "two", passwordVersion: nil), for: key)
        #expect(!files.transfers.contains(where: exists) && exists(files.applied))
        #expect(try state.store(at: "/a", document: StateFixture.diary)?.mustReplace == true)
    }
}
