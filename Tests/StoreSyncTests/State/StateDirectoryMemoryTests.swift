import FileSupport
import Foundation
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The memory of a state directory")
struct StateDirectoryMemoryTests {
    private let fixture: StateFixture
    private let state: StateDirectory
    private var notes: ApplicationKey { StateFixture.notes }
    private var tasks: ApplicationKey { StateFixture.tasks }
    private var elsewhere: ApplicationKey { StateFixture.elsewhere }
    private var diary: DocumentKey { StateFixture.diary }
    private var recipes: DocumentKey { StateFixture.recipes }

    init() throws {
        fixture = try StateFixture()
        state = try fixture.open()
    }

    @Test("A client identifier is created once for each application and remote, and peeking creates none")
    func clientIdentifier() throws {
        #expect(try state.peekClientIdentifier(for: notes) == nil)
        let identifier = try state.clientIdentifier(for: notes)
        #expect(try state.clientIdentifier(for: notes) == identifier)
        #expect(try fixture.open().peekClientIdentifier(for: notes) == identifier)
        #expect(try Set([notes, tasks, elsewhere].map(state.clientIdentifier)).count == 3)
        #expect(try state.replaceClientIdentifier(for: notes) != identifier)
    }

    @Test("F8: Each application on each remote keeps its own key, which the next epoch's key replaces")
    func masterKeys() async throws {
        let applications = [notes, tasks, elsewhere]
        let keys = applications.map { _ in MasterKey() }
        for (application, key) in zip(applications, keys) {
            try await state.keep(key, for: application, epoch: "one", on: nil)
        }
        let reopened = try fixture.open()
        for (application, key) in zip(applications, keys) {
            #expect(try await reopened.masterKey(for: application, epoch: "one", on: nil) == key)
            #expect(try await reopened.masterKey(for: application, epoch: "two", on: nil) == nil)
        }
        let next = MasterKey()
        try await reopened.keep(next, for: notes, epoch: "two", on: nil)
        #expect(try await state.masterKey(for: notes, epoch: "one", on: nil) == nil)
        #expect(try await state.masterKey(for: notes, epoch: "two", on: nil) == next)
        #expect(try await state.masterKey(for: tasks, epoch: "one", on: nil) == keys[1])
    }

    @Test("In an epoch, a pin keeps the latest version of the password that any process has seen")
    func passwordVersion() throws {
        func pin(_ epoch: String, _ version: UInt32?) -> ApplicationPin {
            var pin = ApplicationPin(encryption: "suite", epoch: epoch, passwordVersion: version)
            pin.passwordDigest = version.map { "digest \($0)" }
            return pin
        }
        try state.setPin(pin("one", 2), for: notes)
        for version in [1, nil] as [UInt32?] {
            try fixture.open().setPin(pin("one", version), for: notes)
            #expect(try state.pin(for: notes) == pin("one", 2))
        }
        try state.setPin(pin("one", 3), for: notes)
        #expect(try state.pin(for: notes) == pin("one", 3))
        try state.setPin(pin("two", 1), for: notes)
        #expect(try state.pin(for: notes) == pin("two", 1))
    }

    @Test(
        "A pin survives reopening, for its application alone",
        arguments: [
            ApplicationPin(encryption: nil, epoch: nil), ApplicationPin(encryption: nil, epoch: "one"),
            ApplicationPin(encryption: "suite", epoch: "one"),
        ]
    )
    func pin(_ pin: ApplicationPin) throws {
        try state.setPin(pin, for: notes)
        #expect(try fixture.open().pin(for: notes) == pin)
        #expect(try state.pin(for: tasks) == nil)
        #expect(try state.pin(for: elsewhere) == nil)
    }

    @Test("Staging names are kept until they are forgotten")
    func stagings() throws {
        for name in [".registering-b", ".registering-a"] { try state.recordStaging(name: name, for: notes) }
        try state.recordStaging(name: ".registering-c", for: tasks)
        #expect(try fixture.open().stagings(for: notes) == [".registering-a", ".registering-b"])
        try state.forgetStaging(name: ".registering-b", for: notes)
        #expect(try state.stagings(for: notes) == [".registering-a"])
    }

    @Test("The memory of rollbacks is kept for each integrity key, and every key that was seen is remembered")
    func recreated() throws {
        try state.setIntegrityKey("key", for: diary)
        for document in [diary, recipes] {
            var store = StateFixture.store(of: document)
            store.base = StateFixture.name(6)
            try state.commitPull(store)
        }
        try state.setIntegrityKey("key", for: diary)
        try state.setIntegrityKey("another", after: ["first", "key"], for: diary)
        #expect(try state.rollbackMemory(for: diary, "another") == RollbackMemory())
        #expect(try state.rollbackMemory(for: diary, "key").newest == [StateFixture.name(6)])
        #expect(try state.formerIntegrityKeys(for: diary) == ["first", "key"])
        #expect(try state.formerIntegrityKeys(for: recipes).isEmpty)
        try state.setIntegrityKey("third", for: diary)
        #expect(try state.formerIntegrityKeys(for: diary) == ["first", "key", "another"])
        #expect(try state.rollbackMemory(for: recipes, "key").highestGeneration == 6)
        // An operation that found a former document registers with it after another one has registered with the successor.
        #expect(try !state.setIntegrityKey("another", after: ["first", "key"], for: diary))
        #expect(
            try state.integrityMemory(for: diary)
                == IntegrityMemory(current: "third", former: ["first", "key", "another"])
        )
    }

    @Test("Uploads are in flight until they are published, the oldest first, and are never forgotten")
    func uploads() throws {
        let uploads = [9, 2, 10].map { StateFixture.record($0) }
        for upload in uploads + [StateFixture.record(3, of: recipes), StateFixture.record(4, client: "former")] {
            try state.recordUpload(upload)
        }
        let listed = try fixture.open().uploads(for: diary)
        #expect(listed.map(\.name.generation) == [2, 4, 9, 10])
        #expect(listed.allSatisfy { !$0.isPublished })
        let store = try #require(uploads[0].store)
        #expect(try state.openUploads(of: store).map(\.generation).sorted() == [2, 4, 9, 10])
        try state.adoptInterruptedUploads([StateFixture.manifest(of: uploads[0])], document: diary)
        #expect(try state.uploads(for: diary).filter(\.isPublished).map(\.name.generation) == [9])
        #expect(try state.store(at: store.path, document: diary) == store)
        #expect(try state.openUploads(of: store).isEmpty, "the store's new record settles them")
        #expect(try state.uploads(for: diary).map(\.name.generation) == [2, 4, 9, 10])
    }

    @Test("A selection of uploads has the document's uploads that it names, and no others")
    func uploadSelections() throws {
        let uploads = [9, 2, 10].map { StateFixture.record($0) }
        let (others, former) = (StateFixture.record(11, of: recipes), StateFixture.record(4, client: "former"))
        for upload in [uploads[2], others] { try state.recordUpload(upload) }
        for upload in [uploads[0], uploads[1], former] { try state.commitPush(upload) }
        func selected(_ wanted: UploadSelection) throws -> [Int] {
            try state.uploads(for: diary, wanted).map(\.name.generation)
        }
        #expect(try selected(.all) == [2, 4, 9, 10])
        #expect(try selected(.newest) == [10])
        #expect(try selected(.lastPublished) == [9])
        #expect(try selected(.unpublished) == [10])
        #expect(try selected(.since(generation: 9)) == [9, 10])
        let planted = UploadName(client: former.name.client, generation: 5, upload: former.name.upload)
        let names = [uploads[2], uploads[1], others].map(\.name) + [planted, StateFixture.name(9)]
        #expect(try selected(.named(names)) == [2, 10])
        #expect(try selected(.named([])) == [])
        let client = uploads[0].name.client
        #expect(try selected(.lastPublished(by: client, besides: [])) == [9])
        #expect(try selected(.lastPublished(by: client, besides: [uploads[1].name, StateFixture.name(9)])) == [9])
        #expect(try selected(.lastPublished(by: client, besides: [uploads[0].name])) == [2])
        #expect(try selected(.lastPublished(by: client, besides: [uploads[0].name, uploads[1].name])) == [])
        #expect(try selected(.lastPublished(by: former.name.client, besides: [planted])) == [4])
    }

    @Test("More uploads can be named than a query has parameters")
    func manyNames() throws {
        let upload = StateFixture.record(1)
        try state.recordUpload(upload)
        let names = (1...40_000).map { StateFixture.name($0) } + [upload.name]
        #expect(try state.uploads(for: diary, .named(names)).map(\.name) == [upload.name])
    }

    @Test("An interrupted upload that appears after a pull has replaced its store changes only its own record")
    func lateUpload() throws {
        let upload = StateFixture.record(2)
        try state.recordUpload(upload)
        var pulled = StateFixture.store()
        pulled.contentRoot = "beef"
        pulled.base = StateFixture.name(3)
        try state.commitPull(pulled)
        try state.adoptInterruptedUploads([StateFixture.manifest(of: upload)], document: diary)
        #expect(try state.store(at: pulled.path, document: diary) == pulled)
        #expect(try state.uploads(for: diary).map(\.isPublished) == [true])
    }

    @Test("A mark for replacement reaches every store of the document and no other, and a push doesn't remove it")
    func marking() throws {
        for store in [StateFixture.store("/a"), StateFixture.store("/b"), StateFixture.store("/a", of: recipes)] {
            try state.commitPull(store)
        }
        try state.markStoresForReplacement(document: diary)
        #expect(try state.store(at: "/a", document: diary)?.mustReplace == true)
        #expect(try state.store(at: "/b", document: diary)?.mustReplace == true)
        #expect(try state.store(at: "/a", document: recipes)?.mustReplace == false)
        var upload = StateFixture.record(1)
        upload.store = StateFixture.store("/a")
        try state.commitPush(upload)
        #expect(try state.store(at: "/a", document: diary)?.mustReplace == true)
        try state.commitPull(StateFixture.store("/a"))
        #expect(try state.store(at: "/a", document: diary)?.mustReplace == false)
    }

    @Test("A store that is marked while a push compares it with an upload stays marked until it's merged or pulled")
    func markedDuringAPush() throws {
        try state.commitPull(StateFixture.store("/a"))
        var compared = try #require(try state.store(at: "/a", document: diary))
        compared.contentRoot = "beef"
        try state.markStoresForReplacement(document: diary)
        try state.noteUnchanged(compared)
        let marked = try #require(try state.store(at: "/a", document: diary))
        #expect(marked.mustReplace && marked.contentRoot == "beef")
        try state.keepStore(at: "/a", document: diary, integrityKey: compared.integrityKey)
        #expect(try state.store(at: "/a", document: diary) == compared)
    }

    @Test(
        "A store that is merged with another document of the same name contains nothing of the former one's uploads",
        arguments: [true, false]
    )
    func mergedWithAnotherDocument(mustReplace: Bool) throws {
        try state.commitPull(StateFixture.store("/a"))
        try state.beginPull(StateFixture.store("/a"), with: nil)
        if mustReplace { try state.markStoresForReplacement(document: diary) }
        try state.keepStore(at: "/a", document: diary, integrityKey: "another")
        #expect(
            try state.stores(of: diary) == [StoreRecord(path: "/a", document: diary, integrityKey: "another")]
        )
    }

    @Test("A pull that was cut off after it had replaced the store is recognized by the store's content")
    func pendingPull() throws {
        try state.commitPull(StateFixture.store("/a"))
        var future = StateFixture.store("/a")
        future.contentRoot = "beef"
        future.base = StateFixture.name(9)
        future.contained = [StateFixture.name(9)]
        try state.beginPull(future, with: nil)
        let record = try #require(try state.store(at: "/a", document: diary))
        #expect(record.contentRoot == "c0ffee")
        #expect(record.settled(for: "c0ffee") == StateFixture.store("/a"))
        #expect(
            record.settled(for: "other").contained.isEmpty,
            "the edited store may descend from the former store or the new one"
        )
        #expect(record.settled(for: "beef").base == future.base)
    }

    @Test("The content or the file tells whether a pull has replaced a store; if neither does, the store was edited")
    func replacement() throws {
        func file(_ inode: Int, birth: Int = 1) throws -> FileIdentity {
            let json = #"{"device": 1, "inode": \#(inode), "birth": \#(birth)}"#
            return try JSONDecoder().decode(FileIdentity.self, from: Data(json.utf8))
        }
        var record = StateFixture.store("/a")
        #expect(record.isReplaced(having: "edited", nil) == false)
        record.file = try file(1)
        record.pending = StoreRecord.Pending(contentRoot: "beef", contained: [], integrityKey: "", file: try file(2))
        #expect(record.isReplaced(having: "beef", nil) == true)
        #expect(record.isReplaced(having: "c0ffee", nil) == false)
        #expect(record.isReplaced(having: "edited", nil) == nil)
        #expect(try record.isReplaced(having: "edited", file(1)) == false)
        #expect(try record.isReplaced(having: "edited", file(2)) == true)
        #expect(try record.isReplaced(having: "edited", file(3)) == nil, "another program has replaced it")
        // Its content was written into the store.
        record.pending?.file = nil
        #expect(try record.isReplaced(having: "edited", file(1)) == nil)
        record.pending?.file = try file(2, birth: 0)
        #expect(try record.isReplaced(having: "edited", file(2, birth: 0)) == nil, "another file may have the number")
    }

    @Test(
        "An upload with other content, or whose manifest was never sent, isn't adopted"
    )
    func anothersUpload() throws {
        let (upload, other) = (StateFixture.record(2), String(repeating: "deadbeef", count: 8))
        var unsent = StateFixture.record(3)
        unsent.contentRoot = nil
        for upload in [upload, unsent] { try state.recordUpload(upload) }
        let store = StateFixture.store()
        #expect(try state.openUploads(of: store) == [upload.name])
        let manifests = [
            try StateFixture.manifest(of: upload, contentRoot: other), try StateFixture.manifest(of: unsent),
        ]
        try state.adoptInterruptedUploads(manifests, document: diary)
        #expect(try state.uploads(for: diary).allSatisfy { !$0.isPublished && $0.store == nil })
        #expect(try state.openUploads(of: store).isEmpty)
        #expect(try state.stores(of: diary).isEmpty)
    }

    @Test("A state directory's hook is called before and after every write, and not for reads")
    func hook() throws {
        let moments = Locked<[String]>([])
        let state = try StateDirectory(
            url: fixture.url,
            steps: StepObserver { moment in moments.withLock { $0.append(moment) } }
        )
        try state.setIntegrityKey("key", for: diary)
        try state.setIntegrityKey("key", for: diary)
        _ = try state.pin(for: notes)
        #expect(moments.withLock { $0 } == ["before integrity key", "after integrity key"])
    }
}
