import Foundation
import SyncCryptography

@testable import Keychain

/// Devices with a keychain each, and a remote with their clients' sealed files.
actor KeychainDevices {
    let fixture: KeychainFixture
    let keychains: [FileKeychain]
    private(set) var remote: [String: [UInt8]] = [:]

    private let key = EpochKey(master: MasterKey(), epoch: UUID())

    init(_ count: Int) async throws {
        fixture = try KeychainFixture()
        var keychains: [FileKeychain] = []
        for index in 0..<count { keychains.append(try await fixture.open("\(index).sqlite")) }
        self.keychains = keychains
    }

    private static func client(_ index: Int) -> String { "client\(index)" }

    private var clients: Set<String> { Set(keychains.indices.map(Self.client)) }

    /// Returns the remote's files, opened.
    func files() throws -> [String: KeychainFile] {
        try Dictionary(
            uniqueKeysWithValues: remote.map { client, sealed in
                (client, try KeychainFile(opening: sealed, with: key, application: "notes", client: client))
            }
        )
    }

    /// Merges the remote's files into a device, and publishes the result unless the device crashes before.
    func synchronize(_ index: Int, crashes: Bool = false) async throws {
        let client = Self.client(index)
        let next = try await keychains[index].merge(try files(), as: client, registered: clients)
        if let next, !crashes { publish(next, of: index) }
    }

    func publish(_ file: KeychainFile, of index: Int) {
        remote[Self.client(index)] = file.sealed(with: key, application: "notes", client: Self.client(index))
    }

    func synchronizeAll(_ rounds: Int = 1) async throws {
        for _ in 0..<rounds {
            for index in keychains.indices { try await synchronize(index) }
        }
    }

    /// Returns the items in a device's keychain, by account.
    func items(_ index: Int) async throws -> [String: String] {
        do {
            let matches = try await keychains[index].copyMatching(KeychainQuery(synchronizable: .yes))
            return Dictionary(uniqueKeysWithValues: matches.map { ($0.item.account, $0.secret.text) })
        } catch let error as KeychainError where error.code == .itemNotFound {
            return [:]
        }
    }

    /// Returns the number of tombstones that a device holds.
    func tombstones(_ index: Int) async throws -> Int {
        try await keychains[index].replica().entries.values.count { $0.secret == nil }
    }

    func remove(file index: Int) { remote[Self.client(index)] = nil }

    func replace(file index: Int, by bytes: [UInt8]) { remote[Self.client(index)] = bytes }
}
