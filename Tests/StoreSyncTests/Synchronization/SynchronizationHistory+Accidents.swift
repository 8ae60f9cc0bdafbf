import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import StoreChanges
import TestSupport

@testable import StoreSync

/// What happens to devices and to the storage besides faults of single requests.
extension SynchronizationHistory {
    /// An accident of a device.
    private enum Accident: CaseIterable {
        /// Files are hidden from the device, or from all devices, until they reappear.
        case hides, losesForAll, showsAll
        /// Days pass.
        case waits
        /// The device gets the next version of the app.
        case isUpdated
        /// Another device joins.
        case joins
        /// The device's files are copied to another machine, and both continue.
        case isCopied
        /// The device's files are saved; they are put back, all of them, or the store or the memory alone.
        case isSaved, isRestored, storeIsRestored, memoryIsRestored
        /// Another device removes its client, from the document or from the application.
        case isRemoved, isDeregistered
    }

    func accident(of member: Member) async throws {
        guard let accident = Accident.allCases.randomElement(using: &random) else { return }
        log.append("\(member.device.name): \(accident)")
        switch accident {
        case .hides: await member.veil.hide(try await hidden())
        case .losesForAll:
            let paths = try await hidden()
            for member in members { await member.veil.hide(paths) }
        case .showsAll: for member in members { await member.veil.showAll() }
        case .waits: try await simulation.clock.sleep(for: .seconds(.random(in: 0..<3 * Self.day, using: &random)))
        case .isUpdated: if hasStore(member) { try migrate(member, to: min(version(member) + 1, Self.lastVersion)) }
        case .joins: if members.count < 5 { try await connect(try add("\(members.count)")) }
        case .isCopied: if hasStore(member), members.count < 5 { try await copy(member) }
        case .isSaved: if hasStore(member) { try save(member) }
        case .isRestored: try restore(member, "")
        case .storeIsRestored: try restore(member, "store.sqlite")
        case .memoryIsRestored: try restore(member, "state")
        case .isRemoved: try await remove(member, from: fixture.document)
        case .isDeregistered: try await remove(member, from: nil)
        }
    }

    private func connect(_ member: Member) async throws { await member.connection.set(server.faults(Self.faults)) }

    /// Some heads, some files with older edits, some baselines, and where the change sets begin.
    private func hidden() async throws -> [RemotePath] {
        let document = fixture.hierarchy.document(fixture.document)
        var paths = [document.syncOrigin]
        for client in try await place.list(document.wholeStores) ?? [] {
            let directory = try document.wholeStores.appending(client.name)
            for file in try await place.list(directory) ?? [] { paths.append(try directory.appending(file.name)) }
        }
        for item in try await place.list(document.recentSyncs) ?? [] {
            paths.append(try document.recentSyncs.appending(item.name))
            guard let client = SyncHeadName(item.name)?.client else { continue }
            let directory = document.syncChanges(client)
            for segment in try await place.list(directory) ?? [] { paths.append(try directory.appending(segment.name)) }
        }
        return paths.filter { _ in Int.random(in: 0..<3, using: &random) == 0 }
    }

    private static let day: TimeInterval = 24 * 60 * 60

    // MARK: Files of a device

    private func folder(_ name: String) -> URL { fixture.folder.appending(path: name, directoryHint: .isDirectory) }

    private func copy(_ member: Member) async throws {
        let name = "\(member.device.name)-copy\(members.count)"
        try FileManager.default.copyItem(at: folder(member.device.name), to: folder(name))
        let copy = try add(name)
        copy.unpublished = member.unpublished
        ledger.copy(member.unpublished)
        try await connect(copy)
    }

    private func save(_ member: Member) throws {
        let backup = folder("backup of \(member.device.name)")
        try? FileManager.default.removeItem(at: backup)
        try FileManager.default.copyItem(at: folder(member.device.name), to: backup)
        backups[member.device.name] = Backup(folder: backup, unpublished: member.unpublished)
    }

    /// Puts back a part of what was saved of a device, or all of it.
    private func restore(_ member: Member, _ part: String) throws {
        guard let backup = backups[member.device.name] else { return }
        let version = hasStore(member) ? try version(member) : 0
        let home = folder(member.device.name)
        let parts = part.isEmpty ? try FileManager.default.contentsOfDirectory(atPath: home.path) : [part]
        for name in parts { try FileManager.default.removeItem(at: home.appending(path: name)) }
        if part == "store.sqlite" {
            for suffix in ["-wal", "-shm", "-journal"] {
                try? FileManager.default.removeItem(at: home.appending(path: part + suffix))
            }
        }
        let saved = part.isEmpty ? try FileManager.default.contentsOfDirectory(atPath: backup.folder.path) : [part]
        for name in saved {
            try FileManager.default.copyItem(
                at: backup.folder.appending(path: name),
                to: home.appending(path: name)
            )
        }
        // Its memory is opened again.
        let name = member.device.name
        member.device = try fixture.device(name, clockError: member.clockError, backend: member.veil)
        guard part != "state" else { return }
        // The app opens the store in its version, which isn't in the backup.
        if hasStore(member) { try migrate(member, to: version) }
        // An edit that isn't in the backup may have been published before it was given up.
        ledger.giveUp(member.unpublished.subtracting(backup.unpublished))
        ledger.copy(backup.unpublished)
        member.unpublished = backup.unpublished
    }

    // MARK: Removed clients

    private func remove(_ member: Member, from document: RemoteIdentifier?) async throws {
        guard let client = try? member.device.synchronizationMemory()?.client,
            let other = members.filter({ $0 !== member && hasStore($0) }).randomElement(using: &random),
            try other.device.synchronizationMemory().map({ $0.client != client }) ?? false
        else { return }
        do {
            _ = try await other.device.remove(RemoteIdentifier(client), from: document).value
        } catch let error as StoreSyncError {
            log.append("  \(error.code) \(error.message)")
        }
    }
}
