import Foundation
import GRDB
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

/// A small encrypted application on disk with a file of every kind, and a device that has read the newest of each.
///
/// Its document was deleted and created again. Since then its store was pushed, its password changed, and its store
/// pushed again.
struct AttackedApplication {
    /// The kind of a file on the remote.
    enum Kind: String, Sendable, CaseIterable, CustomTestStringConvertible {
        case registration, salt, test, deviceInfo, documentInfo, integrityKey, manifest, store, appliedSets
        case deletedClient, deletedDocument

        var testDescription: String { rawValue }

        init?(_ path: String) {
            let name = path.split(separator: "/").last ?? ""
            switch name {
            case "registration.plist": self = .registration
            case "salt.ticdsync": self = .salt
            case "test.ticdsync": self = .test
            case "deviceInfo.plist": self = .deviceInfo
            case "documentInfo.plist": self = .documentInfo
            case "WholeStore.ticdsync": self = .store
            case _ where path.contains("/IntegrityKey/"): self = .integrityKey
            case _ where name.hasPrefix("manifest-"): self = .manifest
            case _ where path.contains("/WholeStore/"): self = .appliedSets
            case _ where path.contains("/DeletedClients/"): self = .deletedClient
            case _ where path.contains("/DeletedDocuments/"): self = .deletedDocument
            default: return nil
            }
        }
    }

    let fixture: Fixture
    /// The device that pushed everything.
    let writer: Device
    /// The device that has pulled everything, and runs commands during each attack.
    let reader: Device
    /// The current files on the remote, except the read-me.
    let files: [String: Data]
    /// Every error that the reader's commands threw.
    let errors = Locked<[StoreSyncError]>([])

    var sorted: [(key: String, value: Data)] { files.sorted { $0.key < $1.key } }
    /// Former files of the remote: of another epoch, of the document before its deletion, from before the password
    /// change, and from before the last push.
    let former: [[String: Data]]

    static let password = "canary battery staple"
    static let secondPassword = "canary for another time"
    static let notes: Set<String> = ["one", "two"]

    /// Creates the application, with `padding` bytes of noise in its store.
    init(padding: Int = 0) async throws {
        let epoch = try Fixture(password: Self.password)
        let stranger = try epoch.device("writer")
        try await stranger.push(adding: "of another epoch")

        fixture = try Fixture(password: Self.password)
        writer = try fixture.device("writer")
        reader = try fixture.device("reader")
        _ = try await fixture.device("idle").register().value
        try await writer.push(adding: "of the former life")
        _ = try await reader.pull().value
        let life = try fixture.files()

        try await fixture.deleteDocument(by: writer)
        let store = fixture.folder.appending(path: "writer/new.sqlite")
        try Store.write(["one"], to: store)
        if padding > 0 { try Store.pad(store, padding) }
        _ = try await writer.push(store, recreates: true).value
        _ = try await reader.pull(overwrite: true).value
        let gone = try RemoteIdentifier("gone")
        let note = try await writer.register().value.seal.seal([1], as: .deletedDocument(gone))
        try fixture.put(Data(note), at: "\(fixture.hierarchy.deletedDocument(gone))")
        let password = try fixture.files()
        _ = try await writer.changePassword(to: Self.secondPassword)
        _ = try await reader.register().value
        let push = try fixture.files()
        try Store.write(["two"], to: store)
        _ = try await writer.push(store).value
        _ = try await reader.pull().value
        #expect(try reader.notes() == Self.notes)
        files = try fixture.files().filter { Kind($0.key) != nil }
        former = [try epoch.files(), life, password, push]
    }

    /// The reports of the reader's commands during an attack.
    struct Outcome: Hashable, Sendable, CustomStringConvertible {
        /// The codes of the problems that verifying found, or of its error.
        var verify: Set<String>
        var warns = false
        /// The code of the error that the pull threw, or ``unharmed``.
        var pull: String

        static let unharmed = "unharmed"

        /// Whether any command reported anything.
        var isNoticed: Bool { !verify.isEmpty || warns || pull != Self.unharmed }
        var description: String { "verify \(verify.sorted())\(warns ? " warns" : ""), pull \(pull)" }
    }

    /// Changes files on the remote, runs the reader's commands, and restores the files.
    ///
    /// Rethrows every error that isn't a ``StoreSyncError``. Records an issue if the reader's store isn't the newest.
    func outcome(of what: @autoclosure () -> String, _ changes: [String: Data?], pulls: Bool = true) async throws
        -> Outcome
    {
        for (name, bytes) in changes { try fixture.put(bytes, at: name) }
        var outcome = Outcome(verify: [], pull: Outcome.unharmed)
        do {
            let report = try await reader.verify().value
            outcome.verify = Set(report.problems.map(\.code))
            outcome.warns = !report.warnings.isEmpty
        } catch let error as StoreSyncError {
            outcome.verify = ["\(error.code)"]
            errors.withLock { $0.append(error) }
        }
        do {
            if pulls { _ = try await reader.pull(overwrite: true).value }
        } catch let error as StoreSyncError {
            outcome.pull = "\(error.code)"
            errors.withLock { $0.append(error) }
        }
        if pulls { #expect(try reader.notes() == Self.notes, "\(what())") }
        try fixture.restore(files.merging(fixture.files().filter { Kind($0.key) == nil }) { first, _ in first })
        return outcome
    }
}

extension Store {
    /// Makes a store larger by noise that doesn't compress.
    static func pad(_ url: URL, _ count: Int) throws {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE noise (bytes BLOB NOT NULL)")
            try db.execute(sql: "INSERT INTO noise VALUES (randomblob(?))", arguments: [count])
        }
    }
}
