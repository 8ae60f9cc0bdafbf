import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("Lists of documents and clients", .timeLimit(.minutes(60)))
struct ListTests {
    @Test(
        "H5, H6, H8, H9, H11: The lists show what the first registrants saved, the original device and the last syncs",
        arguments: [false, true]
    )
    func everything(isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let delegate = await AppDelegate(fixture.password)
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        let managers = [
            first.manager(delegate, userInfo: ["colour": .string("red")]),
            second.manager(delegate, userInfo: ["size": .integer(3)]),
        ]
        let begin = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
        try first.write("one")
        let notes = managers[0].document(fixture.document, description: "My notes", userInfo: ["kind": .string("text")])
        let upload = try await notes.upload(storeAt: first.store).value
        let other = try RemoteIdentifier("other")
        _ = try await managers[0].document(other).register(description: "Another").value
        let again = managers[1].document(fixture.document, description: "Theirs", userInfo: ["kind": .string("none")])
        let download = try await again.download(WholeStoreDownloadRequest(url: second.store)).value

        let documents = try await managers[1].listDocuments().value
        #expect(documents.unreadable.isEmpty)
        #expect(documents.documents.map(\.document) == [fixture.document, other])
        let document = try #require(documents.documents.first)
        #expect(document.description == "My notes" && document.userInfo == ["kind": .string("text")])
        #expect(document.originalDevice == upload.client.rawValue && document.originalDeviceDescription == "first")
        #expect(Set(document.clients) == [upload.client, download.client])
        #expect(Set(document.lastSyncs.keys) == [upload.client, download.client])
        #expect(document.lastSyncs.values.allSatisfy { (begin...Date()).contains($0) }, "\(document.lastSyncs)")
        #expect(documents.documents[1].description == "Another" && documents.documents[1].lastSyncs.isEmpty)

        let clients = try await managers[1].listClients().value
        #expect(clients.document == nil && clients.unreadable.isEmpty)
        #expect(Set(clients.clients.map(\.description)) == ["first", "second"])
        let listed = try #require(clients.clients.first { $0.client == upload.client })
        #expect(listed.userInfo == ["colour": .string("red")])
        #expect(Set(listed.documents) == [fixture.document, other])
        #expect(listed.lastSync == document.lastSyncs[upload.client])
        let ofOther = try await managers[1].document(other).listClients().value
        #expect(ofOther.document == other && ofOther.clients.map(\.client) == [upload.client])
        #expect(ofOther.clients.first?.lastSync == nil && ofOther.clients.first?.userInfo == listed.userInfo)

        let status = try await managers[0].status().value
        #expect(status.clients.first { $0.client == upload.client }?.lastSync == listed.lastSync)
        #expect(status.documents.first { $0.document == fixture.document }?.lastSyncs == document.lastSyncs)
        withExtendedLifetime(delegate) {}
    }

    @Test("H11: Every push and pull writes the time, also if the store is unchanged, and no other file")
    func recentSync() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        let client = try await device.push(adding: "one").client
        let path = "\(fixture.hierarchy.document(fixture.document).recentSync(client))"
        let before = try fixture.files()
        #expect(before[path] != nil)
        for number in 0..<2 {
            try fixture.put(nil, at: path)
            if number == 0 { _ = try await device.push().value } else { _ = try await device.pull().value }
            let after = try fixture.files()
            #expect(Set(after.keys) == Set(before.keys))
            #expect(after.filter { $0.key != path } == before.filter { $0.key != path })
        }
    }

    @Test("H11: A time of a sealed document counts only if it's authentic, and verify reports the others")
    func unauthentic() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let first = try await a.push(adding: "one").client
        let second = try await b.pull().value.client
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let (own, other) = ("\(hierarchy.recentSync(first))", "\(hierarchy.recentSync(second))")
        // Another client's file, a file that isn't sealed, and an empty file.
        let others = try #require(try fixture.files()[other])
        for planted in [others, Data(RecentSync(.distantFuture).xml), Data()] {
            try fixture.put(planted, at: own)
            let list = try await b.listDocuments().value
            #expect(list.unreadable.map(\.path) == [own], "\(list.unreadable)")
            #expect(list.documents.map { Set($0.lastSyncs.keys) } == [[second]])
            #expect(try await b.listClients().value.unreadable.map(\.path) == [own])
            #expect(try await b.status().value.unreadable.map(\.path) == [own])
            let problems = try await b.verify().value.problems
            #expect(problems.map(\.path) == [own])
            #expect(problems.allSatisfy { $0.message.contains("If the client was removed") })
        }
        _ = try await a.pull().value
        #expect(try await b.verify().value.problems.isEmpty, "the next pull writes the file again")
    }

    @Test("A list registers no device and writes nothing, and damaged entries don't hide the others")
    func damaged() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let client = try await a.push(adding: "one").client
        _ = try await b.pull().value
        let paths = [
            fixture.hierarchy.deviceInfo(client), fixture.hierarchy.document(fixture.document).documentInfo,
        ].map { "\($0)" }
        for path in paths { try fixture.put(Data("planted".utf8), at: path) }
        let before = try fixture.files()
        let stranger = try fixture.device("stranger")
        let documents = try await stranger.listDocuments().value
        #expect(documents.documents.map(\.document) == [fixture.document])
        #expect(documents.unreadable.map(\.path) == [paths[1]])
        let clients = try await stranger.listClients().value
        #expect(clients.clients.count == 2 && clients.clients.contains { $0.description == "b" })
        #expect(clients.unreadable.map(\.path) == paths.sorted())
        #expect(try fixture.files() == before)
        #expect(try stranger.state.peekClientIdentifier(for: stranger.access.key) == nil)
    }

    @Test("A list of an application or document that doesn't exist says so")
    func missing() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        #expect(await code { try await device.listDocuments().value } == .applicationMissing)
        #expect(await code { try await device.listClients().value } == .applicationMissing)
        _ = try await device.register().value
        #expect(try await device.listDocuments().value.documents.isEmpty)
        #expect(await code { try await device.listClients(of: fixture.document).value } == .documentNotFound)
        try await device.push(adding: "one")
        _ = try await device.removeDocument().value
        #expect(await code { try await device.listClients(of: fixture.document).value } == .documentDeleted)
    }

    /// A backend whose lists have every item twice.
    private actor RepeatingBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend

        init(_ base: any RemoteBackend) { self.base = base }

        func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
            try await base.list(directory).map { $0 + $0 }
        }
    }

    @Test("A document whose removal is incomplete is reported, also if the storage lists it twice")
    func repeatedDocument() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        try await device.push(adding: "one")
        _ = try await device.removeDocument().value
        let root = fixture.hierarchy.document(fixture.document).root
        try await fixture.remote.createDirectory(at: root)
        let reader = try fixture.device("b", backend: RepeatingBackend(fixture.remote))
        let list = try await reader.listDocuments().value
        #expect(list.documents.isEmpty && list.unreadable.map(\.path) == ["\(root)"])
        let status = try await reader.status().value
        #expect(status.documents.isEmpty && Set(status.unreadable.map(\.path)) == ["\(root)"])
    }

    @Test("The lists of 100 documents are five round trips deep")
    func depth() async throws {
        let fixture = try Fixture()
        let near = InMemoryBackend()
        let device = try fixture.device("a", backend: near)
        try await device.push(adding: "one")
        let documents = fixture.hierarchy.documents
        for number in 0..<99 {
            let copy = try documents.appending("document-\(number)")
            for (name, bytes) in try await contents(of: near, at: documents.appending(fixture.document)) {
                let path = try RemotePath("\(copy)/\(name.split(separator: "/").dropFirst(3).joined(separator: "/"))")
                if let bytes {
                    try await near.write(bytes, to: path, when: .always)
                } else {
                    try await near.createDirectory(at: path)
                }
            }
        }
        let ofDocuments = try await fixture.depth(of: "a", at: { DistantBackend(near, $0) }) { device in
            let list = try await device.listDocuments().value
            #expect(list.documents.count == 100 && list.documents.allSatisfy { $0.lastSyncs.count == 1 })
        }
        let ofClients = try await fixture.depth(of: "a", at: { DistantBackend(near, $0) }) { device in
            let list = try await device.listClients().value
            #expect(list.clients.map(\.documents.count) == [100])
        }
        #expect(ofDocuments <= 5 && ofClients <= 5, "\(ofDocuments), \(ofClients)")
    }
}
