import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("Trees that TICoreDataSync wrote", .timeLimit(.minutes(60)))
struct LegacyTreeTests {
    private static let client = "7C0F9D6E-2B1A-4C55-9E0B-0A6D1F3E8B21"
    private static let integrityKey = "A2E4C1B0-77D3-4F0C-8A55-5D0B7F1C9E33"

    /// A tree as the Objective-C framework leaves it, with a store of two notes.
    private struct Tree {
        let fixture: Fixture

        init(deviceInfo: [UInt8]? = nil) throws {
            fixture = try Fixture()
            let device =
                deviceInfo
                ?? Tree.plist([
                    "kTICDSClientDeviceDescription": "Old Mac",
                    "kTICDSClientDeviceIdentifier": client, "kTICDSClientDeviceUserInfo": ["colour": "blue"],
                ])
            for directory in [
                "Encryption", "Information/DeletedDocuments", "Information/DeletedClients",
                "\(document)/DeletedClients", "\(document)/SyncChanges/\(client)", "\(document)/SyncCommands/\(client)",
                "\(document)/TemporaryFiles/WholeStore",
            ] {
                try FileManager.default.createDirectory(at: url(directory), withIntermediateDirectories: true)
            }
            try write(Array("Don't touch this.".utf8), to: "ReadMe.txt")
            try write(device, to: "ClientDevices/\(client)/deviceInfo.plist")
            try write(
                Tree.plist([
                    "kTICDSDocumentIdentifier": "notes", "kTICDSDocumentDescription": "Notes.sqlite",
                    "kTICDSDocumentUserInfo": ["kind": "notes"], "kTICDSOriginalDeviceIdentifier": client,
                    "kTICDSOriginalDeviceDescription": "Old Mac",
                ]),
                to: "\(document)/documentInfo.plist"
            )
            try write(
                Tree.plist(["kTICDSOriginalDeviceIdentifier": client]),
                to: "\(document)/IntegrityKey/\(integrityKey)"
            )
            try write(Tree.plist(["kTICDSLastSyncDate": Date()]), to: "\(document)/RecentSyncs/\(client).recentsync")
            try write([1, 2, 3], to: "\(document)/SyncChanges/\(client)/310000000.0-\(UUID().uuidString).syncchg")
            let store = url("\(document)/WholeStore/\(client)/WholeStore.ticdsync")
            try FileManager.default.createDirectory(
                at: store.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Store.write(["old", "older"], to: store)
            // TICoreDataSync uploads no set of applied commands (F24).
            try AppliedSets.create(
                at: store.deletingLastPathComponent().appending(path: "AppliedSyncChangeSets.ticdsync")
            )
        }

        var document: String { "Documents/notes" }

        func url(_ path: String) -> URL { fixture.share.appending(path: "\(fixture.application)/\(path)") }

        func write(_ bytes: [UInt8], to path: String) throws {
            try FileManager.default.createDirectory(
                at: url(path).deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(bytes).write(to: url(path))
        }

        static func plist(_ values: [String: Any], _ format: PropertyListSerialization.PropertyListFormat = .xml)
            -> [UInt8]
        {
            let data = try? PropertyListSerialization.data(fromPropertyList: values, format: format, options: 0)
            return Array(data ?? Data())
        }
    }

    @Test("H1, H4–H9: A TICoreDataSync tree's clients, documents and stores are listed, and listing changes nothing")
    func listing() async throws {
        let tree = try Tree()
        let before = try tree.fixture.contents()
        let status = try await tree.fixture.device("new").status().value
        #expect(status.isEncrypted == false)
        #expect(status.clients.map(\.description) == ["Old Mac"])
        #expect(status.clients.first?.userInfo == ["colour": .string("blue")])
        #expect(status.clients.first?.documents.map(\.rawValue) == ["notes"])
        let document = try #require(status.documents.first)
        #expect(document.description == "Notes.sqlite")
        #expect(document.userInfo == ["kind": .string("notes")])
        #expect(document.stores.map(\.client.rawValue) == [Self.client])
        #expect(document.stores.map(\.generation) == [0])
        #expect(try tree.fixture.contents() == before)
    }

    @Test("A TICoreDataSync tree is listed, verified and removed by a device without memory")
    func removing() async throws {
        let tree = try Tree()
        let device = try tree.fixture.device("new")
        #expect(try await device.listDocuments().value.documents.map(\.document.rawValue) == ["notes"])
        #expect(try await device.listClients().value.clients.map(\.client.rawValue) == [Self.client])
        #expect(try await device.verify().value.problems.isEmpty)
        _ = try await device.removeApplication().value
        #expect(try tree.fixture.contents().isEmpty)
    }

    @Test("R3, R11, R12, R16–R18: Registering with a TICoreDataSync tree adds this client and nothing else")
    func registering() async throws {
        let tree = try Tree()
        let before = try tree.fixture.contents()
        let device = try tree.fixture.device("new")
        let registration = try await device.register().value
        #expect(!registration.didCreateApplication && !registration.isEncrypted)
        let after = try tree.fixture.contents()
        let added = Set(after.keys).subtracting(before.keys)
        let root = "\(tree.fixture.application)/ClientDevices/\(registration.client)"
        #expect(added == [root, "\(root)/deviceInfo.plist"])
        for (path, content) in before { #expect(after[path] == content, "\(path)") }
        // The client is known from now on.
        #expect(try await device.register(mayCreate: false).value.client == registration.client)
        #expect(try tree.fixture.contents() == after)
    }

    @Test("A pull of its store that finds the local store in use leaves no copy, because no later pull could resume it")
    func busy() async throws {
        let tree = try Tree()
        let device = try tree.fixture.device("new")
        _ = try await device.pull().value
        try Store.write(["newest"], to: tree.url("\(tree.document)/WholeStore/\(Self.client)/WholeStore.ticdsync"))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let app = try DatabaseQueue(path: device.store.path, configuration: configuration)
        try app.inDatabase { db in
            try db.beginTransaction(.deferred)
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM note")
        }
        #expect(await code { try await device.pull().value } == .busy)
        try app.inDatabase { try $0.rollback() }
        try app.close()
        let names = try FileManager.default.contentsOfDirectory(atPath: device.store.deletingLastPathComponent().path)
        #expect(names.filter { $0.contains(".storesync") } == [])
    }

    @Test("F24, H15–H18: A TICoreDataSync tree's store downloads without applied commands, and can be pushed")
    func downloadingAndPushing() async throws {
        let tree = try Tree()
        let before = try tree.fixture.contents()
        let device = try tree.fixture.device("new")
        let pull = try await device.pull().value
        #expect(pull.from.rawValue == Self.client)
        #expect(pull.generation == 0)
        #expect(try device.notes() == ["old", "older"])
        #expect(try await device.pull().value.from.rawValue == Self.client)

        let push = try await device.push(adding: "new")
        let after = try tree.fixture.contents()
        for (path, content) in before { #expect(after[path] == content, "\(path)") }
        let root = "\(tree.fixture.application)"
        #expect(after["\(root)/Information/registration.plist"] == nil, "an old tree stays an old tree")
        for file in WholeStoreFile.allCases {
            #expect(after["\(root)/Documents/notes/WholeStore/\(push.client)/\(file.rawValue)"] != nil)
        }
        #expect(after["\(root)/Documents/notes/SyncChanges/\(push.client)"] != nil)
        let keys = after.keys.filter { $0.hasPrefix("\(root)/Documents/notes/IntegrityKey/") }
        #expect(keys == ["\(root)/Documents/notes/IntegrityKey/\(Self.integrityKey)"])

        let other = try tree.fixture.device("other")
        let second = try await other.pull().value
        #expect(second.from == push.client)
        #expect(
            second.warnings.contains { $0.contains(Self.client) },
            "the upload of the old program isn't ignored"
        )
        #expect(try other.notes() == ["old", "older", "new"])
        let old = try await other.pull(from: RemoteIdentifier(Self.client)).value
        #expect(old.generation == 0)
        #expect(try other.notes() == ["old", "older"])
        #expect(try await other.verify().value.problems.isEmpty)
    }

    @Test("An integrity key that this device knows is kept when TICoreDataSync leaves a second one")
    func twoIntegrityKeys() async throws {
        let tree = try Tree()
        let device = try tree.fixture.device("new")
        _ = try await device.pull().value
        // TICoreDataSync's registration isn't exclusive: two devices that register first at once leave two keys.
        try tree.write(Tree.plist([:]), to: "\(tree.document)/IntegrityKey/00000000-77D3-4F0C-8A55-5D0B7F1C9E33")
        for _ in 1...3 {
            let registration = try await device.registerDocument().value
            #expect(registration.integrityKey == Self.integrityKey)
            #expect(!registration.mustReplaceLocalStore)
        }
        try await device.push(adding: "new")
    }

    /// The contents by which a tree may be encrypted.
    enum Seal: String, Sendable, CaseIterable {
        case sealedDevice, binaryDevice, otherDictionary, emptyClientDirectory, sealedBesideReadable, salt

        var code: StoreSyncError.Code { self == .salt ? .unsupportedFormat : .applicationIncomplete }
    }

    @Test(
        "R11: A TICoreDataSync tree that may be encrypted is never taken for unencrypted, and nothing is written",
        arguments: Seal.allCases
    )
    func sealed(_ seal: Seal) async throws {
        let values: [String: Any] = ["kTICDSClientDeviceIdentifier": Self.client]
        let sealed = (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 73 &+ 5) }
        let tree: Tree
        switch seal {
        case .sealedDevice: tree = try Tree(deviceInfo: sealed)
        case .binaryDevice: tree = try Tree(deviceInfo: Tree.plist(values, .binary))
        case .otherDictionary: tree = try Tree(deviceInfo: Tree.plist(["something": "else"]))
        case .emptyClientDirectory:
            tree = try Tree()
            try FileManager.default.removeItem(at: tree.url("ClientDevices/\(Self.client)/deviceInfo.plist"))
        case .sealedBesideReadable:
            tree = try Tree()
            try tree.write(sealed, to: "ClientDevices/\(UUID().uuidString)/deviceInfo.plist")
        case .salt:
            tree = try Tree()
            try tree.write(sealed, to: "Encryption/salt.ticdsync")
        }
        let before = try tree.fixture.contents()
        let device = try tree.fixture.device("new")
        try device.write("secret")
        #expect(await code { try await device.register().value } == seal.code)
        #expect(await code { try await device.push().value } == seal.code)
        #expect(await code { try await device.pull(overwrite: true).value } == seal.code)
        #expect(try tree.fixture.contents() == before)
    }

    @Test(
        "An application whose registration hasn't arrived isn't a TICoreDataSync tree, even if that has joined it"
    )
    func arriving() async throws {
        let fixture = try Fixture()
        let (first, new) = (try fixture.device("first"), try fixture.device("new"))
        try await first.push(adding: "one")
        try fixture.put(
            Data(Tree.plist(["kTICDSClientDeviceIdentifier": Self.client])),
            at: "\(fixture.hierarchy.deviceInfo(RemoteIdentifier(Self.client)))"
        )
        let path = "\(fixture.hierarchy.registration)"
        let registration = try #require(try fixture.files()[path])
        try fixture.put(nil, at: path)
        let before = try fixture.files()
        #expect(await code { try await new.register().value } == .applicationIncomplete)
        #expect(await code { try await new.pull().value } == .applicationIncomplete)
        #expect(await code { try await new.listClients().value } == .applicationIncomplete)
        #expect(try fixture.files() == before)
        try fixture.put(registration, at: path)
        _ = try await new.pull().value
        #expect(try new.notes() == ["one"])
    }

    @Test("A TICoreDataSync tree that gets a registration later deregisters the devices that knew it without one")
    func registeredLater() async throws {
        let tree = try Tree()
        let device = try tree.fixture.device("new")
        _ = try await device.register().value
        try tree.write(
            RegistrationInfo.make(of: device.application, encrypted: false).xml,
            to: "Information/registration.plist"
        )
        #expect(await code { try await device.register().value } == .deregistered)
    }
}
