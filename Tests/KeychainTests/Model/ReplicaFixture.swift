import Foundation
import OperationsTesting
import SyncCryptography
import Testing

@testable import Keychain

/// Four devices, each as the real replica and as the model, and the files that they have published.
struct ReplicaFixture {
    private struct Device {
        let name: String
        var replica: KeychainReplica
        var model: ModelReplica
        var isRegistered: Bool
        /// Every file that it published, the newest last.
        var files: [(file: KeychainFile, model: ModelReplica.File)] = []
    }

    private static let keys = 8

    private var generator: SplitMix64
    private var devices: [Device]
    private var edits = 0
    /// The number of tombstones that were removed, over all devices.
    private(set) var collected = 0
    private var steps: [String]

    init(seed: UInt64) {
        steps = ["seed \(seed)"]
        var generator = SplitMix64(seed: seed)
        devices = (0..<4).map { index in
            let identifier = UUID.random(using: &generator)
            return Device(
                name: "device\(index)",
                replica: KeychainReplica(clock: ReplicaClock(replica: identifier)),
                model: ModelReplica(replica: identifier),
                isRegistered: index < 2
            )
        }
        self.generator = generator
    }

    /// Does a random step, and compares the device with its model.
    mutating func step() throws {
        let index = Int.random(in: 0..<devices.count, using: &generator)
        let key = Int.random(in: 0..<Self.keys, using: &generator)
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<5: try edit(index, key, to: "value \(edits)")
        case 5..<8: try edit(index, key, to: nil)
        case 8..<9: try blitz(index)
        case 9..<10: try register(index)
        case 10..<12: try synchronize(index, isStale: true, crashes: false)
        case 12..<14: try synchronize(index, isStale: false, crashes: true)
        default: try synchronize(index, isStale: false, crashes: false)
        }
        try compare(index)
    }

    /// Synchronizes all devices until they have nothing to publish, and compares them.
    mutating func settle() throws {
        for index in devices.indices { try register(index) }
        for _ in 0..<5 {
            for index in devices.indices { try synchronize(index, isStale: false, crashes: false) }
        }
        for device in devices {
            try #require(Self.items(device.replica) == Self.items(devices[0].replica), "\(steps)")
            try #require(!device.replica.entries.values.contains { $0.secret == nil }, "tombstones are left: \(steps)")
        }
        for index in devices.indices { try compare(index) }
        let published = try (0..<4).map { try merge($0, isStale: false) }
        try #require(
            published.allSatisfy { $0 == nil },
            "there is something to publish although nothing changed: \(steps)"
        )
    }

    private func compare(_ index: Int) throws {
        let device = devices[index]
        try #require(Self.items(device.replica) == device.model.items, "\(device.name) after \(steps)")
    }

    private static func key(_ number: Int) throws -> ItemKey {
        try ItemKey(service: "service", account: "\(number)", accessGroup: "group")
    }

    private static func items(_ replica: KeychainReplica) -> [Int: String] {
        let items = replica.entries.compactMap { key, entry in
            entry.secret.map { (Int(key.account) ?? -1, $0.text) }
        }
        return Dictionary(uniqueKeysWithValues: items)
    }

    // MARK: Steps

    private mutating func edit(_ index: Int, _ number: Int, to value: String?) throws {
        guard value != nil || devices[index].model.items[number] != nil else { return }
        try register(index)
        steps.append("\(index) \(value.map { "sets \(number) to \($0)" } ?? "deletes \(number)")")
        edits += 1
        let stamp = try devices[index].replica.clock.nextStamp()
        let entry = ItemEntry(stamp: stamp, secret: value.map { SecretBytes($0) })
        devices[index].replica.entries[try Self.key(number)] = entry
        devices[index].model.edit(number, to: value)
    }

    /// Registers a device as a client, which then synchronizes first.
    ///
    /// An edit before that might be older than a deletion that the clients have forgotten. The replica would then keep the item, and
    /// the model, which forgets no deletion, would delete it.
    private mutating func register(_ index: Int) throws {
        guard !devices[index].isRegistered else { return }
        devices[index].isRegistered = true
        try synchronize(index, isStale: false, crashes: false)
    }

    private mutating func blitz(_ index: Int) throws {
        let numbers = (0..<Self.keys).filter { _ in Bool.random(using: &generator) }
        let identifier = UUID.random(using: &generator)
        steps.append("\(index) blitzes \(numbers)")
        devices[index].replica.blitz(try numbers.map(Self.key), as: identifier)
        devices[index].model.blitz(numbers, as: identifier)
    }

    private mutating func synchronize(_ index: Int, isStale: Bool, crashes: Bool) throws {
        guard devices[index].isRegistered else { return }
        steps.append("\(index) synchronizes\(isStale ? " with old files" : "")\(crashes ? " and crashes" : "")")
        guard let file = try merge(index, isStale: isStale), !crashes else { return }
        // Through its bytes, which must hold everything.
        let written = try KeychainFile(file.content().bytes)
        try #require(written == file)
        devices[index].files.append((written, devices[index].model.file))
    }

    /// Merges each device's newest file, or an older one of another device as a synced folder may hold it.
    private mutating func merge(_ index: Int, isStale: Bool) throws -> KeychainFile? {
        var files: [String: KeychainFile] = [:]
        var models: [ModelReplica.File] = []
        for (other, device) in devices.enumerated() where !device.files.isEmpty {
            let age = isStale && other != index ? Int.random(in: 0..<3, using: &generator) : 0
            let version = device.files[max(0, device.files.count - 1 - age)]
            files[device.name] = version.file
            models.append(version.model)
        }
        let registered = Set(devices.filter(\.isRegistered).map(\.name))
        var identifiers = generator
        defer { generator = identifiers }
        let former = devices[index].replica
        let next = try devices[index].replica.merge(files, as: devices[index].name, registered: registered) {
            UUID.random(using: &identifiers)
        }
        devices[index].model.merge(models, own: devices[index].files.last?.model)
        let remaining = devices[index].replica.entries
        collected += former.entries.count { $1.secret == nil && remaining[$0] == nil }
        return next
    }
}
