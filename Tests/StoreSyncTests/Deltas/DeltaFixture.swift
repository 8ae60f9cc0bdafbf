import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing

@testable import StoreSync

/// A sealed application with a store of incompressible rows, and the helpers with which tests of deltas inspect it.
struct DeltaFixture {
    let fixture: Fixture
    let document: DocumentHierarchy

    init(isVolatile: Bool = true, isSealed: Bool = true) throws {
        fixture = try Fixture(password: isSealed ? "correct horse" : nil, isVolatile: isVolatile)
        document = fixture.hierarchy.document(fixture.document)
    }

    func url(_ path: RemotePath) -> URL { fixture.share.appending(path: "\(path)") }

    /// The published manifests, sorted by client and generation.
    func manifests(_ device: Device) async throws -> [StoreManifest] {
        let registration = try await device.registerDocument(mayCreate: false).value
        let hooks = device.backend.wholeStoreDownloadHooks
        return try await UploadCatalog(hooks, registration).read().manifests
            .sorted { ($0.name.client, $0.name.generation) < ($1.name.client, $1.name.generation) }
    }

    /// The newest manifest of all.
    func newest(_ device: Device) async throws -> StoreManifest {
        try #require(try await manifests(device).max { $0.name.generation < $1.name.generation })
    }

    /// The file in which a device remembers the blocks that it pushed.
    func pushedBlocks(of device: Device) throws -> URL {
        device.state.pushedBlocks(of: device.documentKey).url
    }

    /// The bytes that a push of a store transfers.
    func snapshot(of store: URL) throws -> Data {
        let copy = fixture.folder.appending(path: "snapshot-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: copy) }
        _ = try StoreSnapshot.take(of: LocalStore(store), at: copy)
        return try Data(contentsOf: copy)
    }

    /// Expects that the newest manifest names the seals of the store's file on the remote.
    func expectSeals(_ device: Device, _ comment: String = "") async throws {
        let registration = try await device.registerDocument(mayCreate: false).value
        let manifest = try await newest(device)
        guard let key = registration.application.seal.key else { return }
        let role = manifest.role(of: .store, in: registration.identity)
        let context = registration.application.seal.context(role)
        let file = try #require(try await device.backend.read(manifest.path(of: .store, in: document), range: nil))
        let pass = try await key.pass(over: file, FileOpening(context: context, salt: manifest[.store]?.seal?.salt)) {
            for try await _ in $0 {}
        }
        #expect(manifest[.store]?.seal?.seals == pass.seals, "\(comment)")
    }

    /// Pulls on a device, overwriting its store, and compares the result byte for byte with `store`.
    func expectPulled(_ device: Device, is store: URL, _ comment: String = "") async throws {
        _ = try await device.pull(overwrite: true).value
        let (pulled, pushed) = (try Data(contentsOf: device.store), try snapshot(of: store))
        #expect(pulled == pushed, "\(comment)")
    }
}

/// A store whose rows have 2 to 4 KB.
enum RowStore {
    static func row(_ generator: inout SplitMix64) -> Data {
        let count = Int.random(in: 2000...4000, using: &generator)
        return Data([UInt8].noise(count, using: &generator))
    }

    static func change(_ url: URL, _ body: (Database) throws -> Void) throws {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, value BLOB NOT NULL)")
            try body(db)
        }
    }

    static func insert(_ count: Int, into url: URL, _ generator: inout SplitMix64) throws {
        try change(url) { db in
            for _ in 0..<count {
                try db.execute(sql: "INSERT INTO item (value) VALUES (?)", arguments: [row(&generator)])
            }
        }
    }

    /// The rows by their identifiers.
    static func rows(in url: URL) throws -> [Int: Data] {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        let rows = try queue.read { try Row.fetchAll($0, sql: "SELECT id, value FROM item") }
        return Dictionary(uniqueKeysWithValues: rows.map { ($0["id"], $0["value"]) })
    }

    /// Rewrites rows that are scattered over the table.
    static func update(_ count: Int, in url: URL, _ generator: inout SplitMix64) throws {
        try change(url) { db in
            let identifiers = try Int.fetchAll(db, sql: "SELECT id FROM item ORDER BY id")
            for identifier in identifiers.shuffled(using: &generator).prefix(count) {
                try db.execute(
                    sql: "UPDATE item SET value = ? WHERE id = ?",
                    arguments: [row(&generator), identifier]
                )
            }
        }
    }

    static func delete(_ share: Double, from url: URL, _ generator: inout SplitMix64) throws {
        try change(url) { db in
            for identifier in try Int.fetchAll(db, sql: "SELECT id FROM item ORDER BY id")
            where Double.random(in: 0..<1, using: &generator) < share {
                try db.execute(sql: "DELETE FROM item WHERE id = ?", arguments: [identifier])
            }
        }
    }

    static func vacuum(_ url: URL, pageSize: Int? = nil) throws {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        try queue.inDatabase { db in
            if let pageSize { try db.execute(sql: "PRAGMA page_size = \(pageSize)") }
            try db.execute(sql: "VACUUM")
        }
    }
}
