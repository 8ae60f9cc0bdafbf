import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("What a state directory remembers")
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

    @Test("a client identifier is made once for each application and remote, and looking for one makes none")
    func clientIdentifier() throws {
        #expect(try state.peekClientIdentifier(for: notes) == nil)
        let identifier = try state.clientIdentifier(for: notes)
        #expect(try state.clientIdentifier(for: notes) == identifier)
        #expect(try fixture.open().peekClientIdentifier(for: notes) == identifier)
        #expect(try Set([notes, tasks, elsewhere].map(state.clientIdentifier)).count == 3)
        #expect(try state.replaceClientIdentifier(for: notes) != identifier)
    }

    @Test("F8: each application on each remote keeps its own key, and gives it up for the next epoch's")
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

    @Test(
        "a pin survives reopening, for its application alone",
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

    @Test("staging names are kept until they are forgotten")
    func stagings() throws {
        for name in [".registering-b", ".registering-a"] { try state.recordStaging(name: name, for: notes) }
        try state.recordStaging(name: ".registering-c", for: tasks)
        #expect(try fixture.open().stagings(for: notes) == [".registering-a", ".registering-b"])
        try state.forgetStaging(name: ".registering-b", for: notes)
        #expect(try state.stagings(for: notes) == [".registering-a"])
    }

    @Test("another integrity key is another document: the memory of generations goes")
    func recreated() throws {
        try state.setIntegrityKey("key", for: diary)
        let opened = (client: "laptop", reference: StateFixture.upload(6), includes: GenerationVector())
        for document in [diary, recipes] {
            try state.commitPull(StateFixture.store(of: document), opened: opened, acceptsRollback: false)
        }
        try state.setIntegrityKey("key", for: diary)
        #expect(try state.rollbackMemory(for: diary).highestGeneration == 6, "the same key changes nothing")
        try state.setIntegrityKey("another", isSuccessor: true, for: diary)
        #expect(try state.rollbackMemory(for: diary) == RollbackMemory())
        #expect(try state.formerIntegrityKeys(for: diary) == ["key"])
        #expect(try state.formerIntegrityKeys(for: recipes).isEmpty)
        try state.setIntegrityKey("key", for: diary)
        #expect(try state.formerIntegrityKeys(for: diary) == ["key"])
        #expect(try state.rollbackMemory(for: recipes).highestGeneration == 6)
    }

    @Test("uploads are in flight until they are published, the oldest first, and can be forgotten")
    func uploads() throws {
        let uploads = [9, 2, 10].map { StateFixture.record($0) }
        for upload in uploads + [StateFixture.record(3, of: recipes), StateFixture.record(4, client: "former")] {
            try state.recordUpload(upload)
        }
        let listed = try fixture.open().uploads(for: diary, client: "phone")
        #expect(listed.map(\.reference.generation) == [2, 9, 10])
        #expect(listed.allSatisfy { !$0.isPublished })
        try state.adoptInterruptedUploads(client: "phone", published: [uploads[0].reference], document: diary)
        #expect(try state.uploads(for: diary, client: "phone").filter(\.isPublished).map(\.reference.generation) == [9])
        #expect(try state.store(at: uploads[0].store.path, document: diary) == uploads[0].store)
        try state.forgetUpload(uploads[0].reference.upload)
        #expect(try state.uploads(for: diary, client: "phone").map(\.reference.generation) == [2, 10])
    }

    @Test("a mark for replacement reaches every store of the document and no other, and a push doesn't take it away")
    func marking() throws {
        for store in [StateFixture.store("/a"), StateFixture.store("/b"), StateFixture.store("/a", of: recipes)] {
            try state.commitPull(store, opened: nil, acceptsRollback: false)
        }
        try state.markStoresForReplacement(document: diary)
        #expect(try state.store(at: "/a", document: diary)?.mustReplace == true)
        #expect(try state.store(at: "/b", document: diary)?.mustReplace == true)
        #expect(try state.store(at: "/a", document: recipes)?.mustReplace == false)
        var upload = StateFixture.record(1)
        upload.store = StateFixture.store("/a")
        try state.commitPush(upload)
        #expect(try state.store(at: "/a", document: diary)?.mustReplace == true)
        try state.commitPull(StateFixture.store("/a"), opened: nil, acceptsRollback: false)
        #expect(try state.store(at: "/a", document: diary)?.mustReplace == false)
    }

    @Test("a pull that was cut off after it had replaced the store is recognised by what the store is")
    func pendingPull() throws {
        try state.commitPull(StateFixture.store("/a"), opened: nil, acceptsRollback: false)
        var future = StateFixture.store("/a")
        future.contentRoot = "beef"
        future.vector = StateFixture.vector(["phone": [StateFixture.upload(9)]])
        try state.beginPull(future)
        let record = try #require(try state.store(at: "/a", document: diary))
        #expect(record.contentRoot == "c0ffee")
        #expect(record.settled(for: "c0ffee") == record)
        #expect(record.settled(for: "other") == record)
        #expect(record.settled(for: "beef").vector == future.vector)
    }

    @Test("the hook is called before and after every write, and not for reads")
    func hook() throws {
        let moments = Locked<[String]>([])
        let state = try StateDirectory(url: fixture.url) { moment in moments.withLock { $0.append(moment) } }
        try state.setIntegrityKey("key", for: diary)
        try state.setIntegrityKey("key", for: diary)
        _ = try state.pin(for: notes)
        #expect(moments.withLock { $0 } == ["before integrity key", "after integrity key"])
    }
}
