import Foundation
import GRDB
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Registration and hierarchy, as TICoreDataSync describes them", .timeLimit(.minutes(60)))
struct TraceabilityTests {
    /// Registers with a request that `change` may modify.
    private static func register(
        _ device: Device,
        _ change: (inout ApplicationRegistrationRequest) -> Void = { _ in },
        answering: @escaping ApplicationRegistrationOperation.Delegate = { _ in .unencrypted }
    ) -> OperationHandle<ApplicationRegistration> {
        var request = ApplicationRegistrationRequest(application: device.application, clientDescription: device.name)
        change(&request)
        return device.supervisor.add(
            ApplicationRegistrationOperation(request, backend: device.backend, state: device.state, delegate: answering)
        )
    }

    // MARK: The delegate

    @Test("R2, R4, R34: The delegate is asked while the operation is paused, and other operations run meanwhile")
    func delegate() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend()
        let device = Device(
            name: "device",
            store: fixture.folder.appending(path: "store.sqlite"),
            state: try StateDirectory(url: fixture.folder.appending(path: "state")),
            backend: backend,
            supervisor: OperationSupervisor(OperationSupervisor.Configuration(width: 1)),
            application: fixture.application,
            document: fixture.document
        )
        let other = ApplicationRegistrationRequest(
            application: try RemoteIdentifier("org.example.other"),
            clientDescription: "device"
        )
        // The operation starts when its events are observed, so that none is missed.
        device.supervisor.isSuspended = true
        let handle = Self.register(device) { _ in
        } answering: { question in
            #expect(question == .newApplication)
            // Only one operation runs at a time, and the second one runs while the first is paused.
            let second = ApplicationRegistrationOperation(other, backend: backend, state: device.state) { _ in
                .unencrypted
            }
            let didCreate = try await device.supervisor.add(second).value.didCreateApplication
            #expect(didCreate)
            return .unencrypted
        }
        let events = handle.events
        device.supervisor.isSuspended = false
        #expect(try await handle.value.didCreateApplication)
        var phases: [OperationEvent] = []
        for await event in events {
            switch event {
            case .progress: break
            default: phases.append(event)
            }
        }
        #expect(phases.prefix(3) == [.started, .paused("newApplication"), .resumed], "\(phases)")

        // A joining device is asked another question, and a registered device none.
        let joining = try fixture.device("joining", backend: backend)
        let joined = Self.register(joining) { _ in
        } answering: { question in
            #expect(question == .joiningUnencrypted)
            return .unencrypted
        }
        #expect(try await joined.value.didCreateApplication == false)
        let known = Self.register(joining) { _ in
        } answering: { question in
            Issue.record("asked \(question)")
            return .unencrypted
        }
        _ = try await known.value
    }

    @Test("R4, R15: A decision to encrypt is never followed by a plaintext write")
    func encryptionDecision() async throws {
        let fixture = try Fixture()
        let backend = RecordingBackend()
        let device = try fixture.device("device", backend: backend)
        let password = try Password.cheap("correct horse")
        _ = try await fixture.device("first", backend: backend).register().value
        await backend.forget()
        #expect(
            await code { try await Self.register(device, answering: { _ in .encrypted(password) }).value }
                == .encryptionMismatch
        )
        #expect(
            await code { try await Self.register(device, { $0.requiresEncryption = true }).value }
                == .encryptionMismatch
        )
        #expect(await backend.changes == 0)
    }

    // MARK: Attributes and files

    @Test(
        "H1–H4, R5, R6, R10, R31: The first client creates the whole structure, and nothing else",
        arguments: [true, false]
    )
    func structure(movesDirectories: Bool) async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend(capabilities: movesDirectories ? .all : .all.subtracting(.exclusiveDirectoryMove))
        let device = try fixture.device("device", backend: backend)
        let registration = try await Self.register(device, { $0.readMe = "Ours." }).value
        let root = fixture.hierarchy
        let expected: Set<RemotePath> = [
            root.root, root.readMe, root.clientDevices, root.documents, root.encryption, root.information,
            root.deletedDocuments, root.deletedClients, root.registration, root.clientDirectory(registration.client),
            root.deviceInfo(registration.client),
        ]
        var found: Set<RemotePath> = []
        var pending = [RemotePath.root]
        while let directory = pending.popLast() {
            for item in try await backend.list(directory) ?? [] {
                let path = try directory.appending(item.name)
                found.insert(path)
                if item.kind == .directory { pending.append(path) }
            }
        }
        #expect(found == expected)
        #expect(root.root.lastComponent == fixture.application.rawValue)

        // The read-me of the first client stays.
        let other = try fixture.device("other", backend: backend)
        _ = try await Self.register(other, { $0.readMe = "Theirs." }).value
        #expect(try await backend.smallFile(at: root.readMe) == Array("Ours.".utf8))
    }

    @Test(
        "H4–H6, R17, R18, R31–R33, R37: A client's information is saved once, and again only if it's missing"
    )
    func clientAttributes() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        let userInfo: [String: PropertyListValue] = ["colour": .string("red"), "size": .integer(3)]
        let registration = try await Self.register(device) {
            $0.clientDescription = "first words"
            $0.userInfo = userInfo
        }.value
        let change: (inout ApplicationRegistrationRequest) -> Void = {
            $0.clientDescription = "second words"
            $0.userInfo = [:]
        }
        _ = try await Self.register(device, change).value
        let client = try #require(try await device.status().value.clients.first)
        #expect(client.client == registration.client)
        #expect(client.description == "first words")
        #expect(client.userInfo == userInfo)

        try await device.backend.remove(registration.hierarchy.clientDirectory(registration.client))
        #expect(try await Self.register(device, change).value.client == registration.client)
        #expect(try await registration.savedDeviceInfo(on: device).description == "second words")
    }

    @Test("R38, H4, H19: The client's file is deviceInfo.plist, and salt and test belong in Encryption")
    func decidedContradictions() throws {
        let hierarchy = ApplicationHierarchy(try RemoteIdentifier("app"))
        let client = try RemoteIdentifier("client")
        #expect("\(hierarchy.deviceInfo(client))".hasSuffix("app/ClientDevices/client/deviceInfo.plist"))
        #expect("\(hierarchy.salt)".hasSuffix("app/Encryption/salt.ticdsync"))
        #expect("\(hierarchy.passwordTest)".hasSuffix("app/Encryption/test.ticdsync"))
    }

    @Test("H7–H14: A document has TICoreDataSync's directories, and the info of its first registrant")
    func documentStructure() async throws {
        let fixture = try Fixture()
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        var registrations: [DocumentRegistration] = []
        for device in [first, second] {
            let request = DocumentRegistrationRequest(
                document: fixture.document,
                description: "\(device.name).sqlite",
                userInfo: ["by": .string(device.name)]
            )
            let handle = device.register().then { registered in
                DocumentRegistrationOperation(
                    request,
                    application: registered,
                    backend: device.backend,
                    state: device.state
                ) { _ in true }
            }
            registrations.append(try await handle.value)
        }
        let status = try await first.status().value
        let document = try #require(status.documents.first)
        #expect(document.description == "first.sqlite")
        #expect(document.userInfo == ["by": .string("first")])
        #expect(status.clients.allSatisfy { $0.documents == [fixture.document] })
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let bytes = try #require(try await first.backend.smallFile(at: hierarchy.documentInfo))
        let info = try DocumentInfo(bytes, at: hierarchy.documentInfo)
        #expect(info.originalDevice == registrations[0].application.client.rawValue)
        #expect(info.originalDeviceDescription == "first")

        let root = fixture.share.appending(path: "\(fixture.application)/Documents/notes")
        var expected: Set = [
            "documentInfo.plist", "IntegrityKey", "IntegrityKey/\(registrations[0].integrityKey)", "DeletedClients",
            "RecentSyncs", "SyncChanges", "SyncCommands", "TemporaryFiles", "TemporaryFiles/WholeStore", "WholeStore",
        ]
        for registration in registrations {
            expected.insert("SyncChanges/\(registration.application.client)")
            expected.insert("SyncCommands/\(registration.application.client)")
        }
        #expect(try Set(FileManager.default.subpathsOfDirectory(atPath: root.path)) == expected)
    }

    @Test(
        "H10: A client that was removed from a document must replace its store before it pushes, which ends the removal"
    )
    func removedFromDocument() async throws {
        let fixture = try Fixture()
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        try await first.push(adding: "one")
        let client = try await second.pull().value.client
        let note = fixture.hierarchy.document(fixture.document).deletedClient(client)
        try await first.backend.write(
            DeviceInfo(client: client.rawValue, description: "", userInfo: [:]).xml,
            to: note,
            when: .always
        )
        try second.write("two")
        for _ in 1...2 { #expect(await code { try await second.push().value } == .documentReplaced) }
        _ = try await second.pull(overwrite: true).value
        try await second.push(adding: "three")
        #expect(try await first.backend.status(of: note) == nil)
        _ = try await first.pull().value
        #expect(try first.notes() == ["one", "three"])
    }

    // MARK: Whole stores

    @Test("H15–H18: Every store is pushed with both files of applied sets, also under TICoreDataSync's fixed names")
    func appliedSetsTravel() async throws {
        let fixture = try Fixture()
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        let push = try await first.push(adding: "one")
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let store = fixture.share.appending(path: "\(hierarchy.wholeStores(push.client))")
        // Adds to the second device's applied sets, as a synchronization would.
        _ = try await second.pull().value
        for file in [WholeStoreFile.appliedSyncChangeSets, .appliedSyncCommandSets] {
            let queue = try DatabaseQueue(path: try Self.appliedSets(of: second, file).path)
            try await queue.write { db in
                try db.execute(sql: "INSERT INTO appliedSet VALUES (?, 'today')", arguments: [file.rawValue])
            }
            try queue.close()
        }
        let changed = try await second.push(adding: "two")
        _ = try await first.pull().value
        for file in [WholeStoreFile.appliedSyncChangeSets, .appliedSyncCommandSets] {
            let queue = try DatabaseQueue(path: try Self.appliedSets(of: first, file).path)
            let applied = try await queue.read { try String.fetchAll($0, sql: "SELECT identifier FROM appliedSet") }
            #expect(applied == [file.rawValue])
            try queue.close()
        }
        let directory = fixture.share.appending(path: "\(hierarchy.wholeStores(changed.client))")
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        let upload = try #require(names.first { UploadName(client: changed.client, directoryName: $0) != nil })
        for file in WholeStoreFile.allCases {
            let fixed = try Data(contentsOf: directory.appending(path: file.rawValue))
            #expect(try fixed == Data(contentsOf: directory.appending(path: "\(upload)/\(file.rawValue)")))
        }
        #expect(FileManager.default.fileExists(atPath: store.path))
    }

    @Test("H17: A store may be any file")
    func anyStore() async throws {
        let fixture = try Fixture()
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        for content in [Data(), Data("plain".utf8), Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })] {
            try content.write(to: first.store)
            _ = try await first.push().value
            _ = try await second.pull().value
            #expect(try Data(contentsOf: second.store) == content)
        }
    }

    private static func appliedSets(of device: Device, _ file: WholeStoreFile) throws -> URL {
        let state = device.store.deletingLastPathComponent().appending(path: "state/applied")
        let directory = try #require(try FileManager.default.contentsOfDirectory(atPath: state.path).first)
        return state.appending(path: "\(directory)/\(file.rawValue)")
    }
}
