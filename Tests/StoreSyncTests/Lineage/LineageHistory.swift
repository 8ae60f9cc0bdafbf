import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

/// A random history of some devices with one document, and a model of the edits that each device holds.
///
/// A store is a text file with a line for each edit. The model knows nothing of generations, names and manifests. It
/// reads the edits of every upload from its content. It knows which edits the user of each device holds and hasn't
/// agreed to give up: by overwriting or resolving, or by edits that remove them.
final class LineageHistory {
    /// A device, its store's current path, and the edits that its user holds and hasn't given up.
    struct Member {
        var device: Device
        var backend: VeiledBackend
        var store: URL
        fileprivate var lifetime: Lifetime
        var held: Set<String> = []
        var number: Int
        /// The contents of the store that this device has pushed since the store got its content in another way.
        ///
        /// The device knows that the store contains these uploads, and that it was last pushed with the last content.
        var pushed: [Set<String>] = []
        /// The former content to which the user has edited the store back, if that is its content.
        var editedBackTo: Set<String>?
        /// Whether the store's file is a copy of another device's.
        var isCopied = false

        /// Forgets how the store got its content.
        mutating func forgetPast() { (pushed, editedBackTo, isCopied) = ([], nil, false) }
    }

    /// The number of steps that a device's process takes on its own disk before it dies.
    ///
    /// A step is a change of the device's memory or of its store.
    fileprivate final class Lifetime: Sendable {
        private let stepsLeft = Locked<Int?>(nil)

        func end(afterSteps count: Int?) { stepsLeft.withLock { $0 = count } }

        func step() throws {
            try stepsLeft.withLock { left in
                guard let count = left else { return }
                guard count > 0 else { throw StoreSyncError(.cannotWrite, "The device is dead.") }
                left = count - 1
            }
        }
    }

    let fixture: Fixture
    private let place: InMemoryBackend
    var generator: SplitMix64
    var members: [Member] = []
    /// The edits that users have removed from a store by later edits, on any device.
    var removed: Set<String> = []
    private var edits = 0
    var homes = 0
    /// The edits in every upload that was ever published, and its files, so that it can be put back.
    private var uploads: [UploadName: (edits: Set<String>, files: [RemotePath: [UInt8]])] = [:]
    var log: [String] = []
    /// The first violation, if there was one.
    var violation: String?

    private var hierarchy: DocumentHierarchy { fixture.hierarchy.document(fixture.document) }

    init(seed: UInt64) throws {
        generator = SplitMix64(seed: seed)
        place = InMemoryBackend()
        fixture = try Fixture(place: place, seed: seed)
    }

    /// Runs the history, and returns the number of commands that succeeded.
    @discardableResult
    func run(events: Int) async throws -> Int {
        for _ in 0..<Int.random(in: 2...4, using: &generator) { try addMember() }
        edit(0)
        try await push(0)
        var successes = 0
        for _ in 0..<events where violation == nil {
            if try await step() { successes += 1 }
        }
        return successes
    }

    // MARK: Events

    private func step() async throws -> Bool {
        let index = Int.random(in: members.indices, using: &generator)
        switch Int.random(in: 0..<112, using: &generator) {
        case 0..<16:
            edit(index)
        case 16..<40:
            return try await push(index)
        case 40..<56:
            return try await pull(index)
        case 56..<62:
            return try await pull(index, from: randomUpload())
        case 62..<66:
            return try await pull(index, from: randomUpload(), isGenerationNamed: true)
        case 66..<69:
            return try await pull(index, overwrites: true)
        case 69..<73:
            return try await push(index, resolves: true)
        case 73..<76:
            try move(index)
        case 76..<79:
            try clone(index)
        case 79..<81:
            try forget(index)
        case 81..<87:
            await hide(from: index)
        case 87..<92:
            await members[index].backend.showAll()
            log.append("\(index) sees everything")
        case 92..<95:
            try await resurrect()
        case 95..<100:
            try await kill(index)
        case 100..<103:
            try editBack()
        case 103..<106:
            try copyOther(over: index)
        case 106..<109:
            try startOver(index)
        default:
            try await pullOther(over: index)
        }
        return false
    }

    func addMember() throws {
        let (backend, lifetime) = (VeiledBackend(place), Lifetime())
        let device = try device("device \(homes)", backend, lifetime)
        homes += 1
        members.append(
            Member(
                device: device,
                backend: backend,
                store: device.store,
                lifetime: lifetime,
                number: members.count
            )
        )
    }

    private func device(_ name: String, _ backend: VeiledBackend, _ lifetime: Lifetime) throws -> Device {
        try fixture.device(name, backend: backend) { _ in try lifetime.step() }
    }

    /// Opens a device's memory again, after it was replaced.
    func reopen(_ index: Int) throws {
        let name = members[index].device.state.url.deletingLastPathComponent().lastPathComponent
        members[index].device = try device(name, members[index].backend, members[index].lifetime)
    }

    func edit(_ index: Int) {
        edits += 1
        let edit = "edit \(edits)"
        members[index].held.insert(edit)
        (members[index].editedBackTo, members[index].isCopied) = (nil, false)
        try? write(content(index).union([edit]), to: members[index].store)
        log.append("\(index) makes \(edit)")
    }

    func write(_ lines: Set<String>, to url: URL) throws {
        try Data(lines.sorted().joined(separator: "\n").utf8).write(to: url)
    }

    @discardableResult
    private func push(_ index: Int, resolves: Bool = false) async throws -> Bool {
        let (member, pushed, count) = (members[index], content(index), uploads.count)
        let heads = try await visibleHeads(index)
        let isNew = !uploads.values.contains { $0.edits == pushed }
        let isDone = await succeeds("\(index) pushes\(resolves ? ", resolving" : "")") {
            _ = try await member.device.push(member.store, resolves: resolves).value
        }
        try await record()
        guard isDone else { return false }
        if member.isCopied, !resolves, heads.count == 1, heads[0].isWhole, heads[0].edits == pushed,
            uploads.count > count
        {
            violation = "a push published a copy of the only head"
        }
        members[index].forgetPast()
        members[index].pushed = (isNew ? member.pushed : []) + [pushed]
        if resolves { giveUp(heads, for: index) }
        try await check(index)
        return true
    }

    @discardableResult
    private func pull(
        _ index: Int,
        from upload: UploadName? = nil,
        isGenerationNamed: Bool = false,
        overwrites: Bool = false
    ) async throws -> Bool {
        let (member, before) = (members[index], content(index))
        let generation = isGenerationNamed ? upload?.generation : nil
        let source = upload.map { " \(isGenerationNamed ? "\($0)" : "from \($0.client)")" } ?? ""
        let isDone = await succeeds("\(index) pulls\(source)\(overwrites ? ", overwriting" : "")") {
            _ = try await member.device.pull(
                member.store,
                from: upload?.client,
                generation: generation,
                overwrite: overwrites
            ).value
        }
        guard isDone else {
            if content(index) != before { violation = "a pull that failed changed the store" }
            return false
        }
        if overwrites { members[index].held.subtract(before.subtracting(content(index))) }
        // If another upload has that content, the store may equal an upload that it doesn't contain.
        if let former = member.editedBackTo, !overwrites, content(index) != before,
            uploads.values.count(where: { $0.edits == former }) == 1
        {
            violation = "a pull undid an edit that had returned the store to former content"
        }
        members[index].forgetPast()
        try await hold(index)
        try await check(index)
        return true
    }

    private func randomUpload() -> UploadName? { uploads.keys.sorted().randomElement(using: &generator) }

    /// Hides an upload, or one of its files, from a device.
    private func hide(from index: Int) async {
        guard let name = randomUpload() else { return }
        let (manifest, folder) = (hierarchy.manifest(name), hierarchy.upload(name))
        let choices = [[manifest], [manifest, folder], [folder], [WholeStoreFile.store.path(in: folder)]]
        guard let paths = choices.randomElement(using: &generator) else { return }
        await members[index].backend.hide(paths)
        log.append("hidden from \(index): \(paths.map { $0.lastComponent ?? "" }.joined(separator: ", ")) of \(name)")
    }

    /// Puts back an upload that was removed.
    private func resurrect() async throws {
        guard let name = randomUpload(), let files = uploads[name]?.files else { return }
        for (path, bytes) in files { try await place.write(bytes, to: path, when: .always) }
        log.append("\(name) is put back")
    }

    /// Makes a command die between two requests, or between two steps on the device's own disk.
    private func kill(_ index: Int) async throws {
        let (member, pushes) = (members[index], Bool.random(using: &generator))
        let resolves = pushes && Int.random(in: 0..<4, using: &generator) == 0
        let source = pushes || Bool.random(using: &generator) ? nil : randomUpload()
        let generation = Bool.random(using: &generator) ? source?.generation : nil
        let heads = try await visibleHeads(index)
        if Bool.random(using: &generator) {
            await member.backend.die(afterRequests: Int.random(in: 0..<30, using: &generator))
        } else {
            member.lifetime.end(afterSteps: Int.random(in: 0..<16, using: &generator))
        }
        log.append("\(index) dies:")
        let from = source.map { " from \($0)" } ?? ""
        await succeeds("  \(pushes ? "pushing" : "pulling")\(resolves ? ", resolving" : "")\(from)") {
            if pushes {
                _ = try await member.device.push(member.store, resolves: resolves).value
            } else {
                _ = try await member.device.pull(member.store, from: source?.client, generation: generation).value
            }
        }
        await member.backend.die(afterRequests: nil)
        member.lifetime.end(afterSteps: nil)
        members[index].forgetPast()
        try await record()
        try await hold(index)
        // The user agreed to this, whether the command got that far or not.
        if resolves { giveUp(heads, for: index) }
    }

    /// Records that a device's user lets its store replace the heads that can be inspected.
    private func giveUp(_ heads: [Head], for index: Int) {
        let givenUp = heads.filter(\.isWhole).reduce(into: Set<String>()) { $0.formUnion($1.edits) }
            .subtracting(content(index))
        for other in members.indices { members[other].held.subtract(givenUp) }
    }

    // MARK: The model

    func content(_ index: Int) -> Set<String> {
        guard let text = try? String(contentsOf: members[index].store, encoding: .utf8) else { return [] }
        return Set(text.split(separator: "\n").map(String.init))
    }

    @discardableResult
    func succeeds(_ event: String, _ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            log.append(event)
            return true
        } catch let error as StoreSyncError {
            log.append("\(event): \(error.code)")
        } catch {
            violation = "\(event): \(error)"
        }
        return false
    }

    /// Records the uploads that were published since the last call.
    private func record() async throws {
        for client in try await place.list(hierarchy.wholeStores) ?? [] {
            guard let client = try? RemoteIdentifier(client.name) else { continue }
            for item in try await place.list(hierarchy.wholeStores(client)) ?? [] {
                guard let name = UploadName(client: client, manifestName: item.name), uploads[name] == nil else {
                    continue
                }
                var paths = [hierarchy.manifest(name)]
                for file in try await place.list(hierarchy.upload(name)) ?? [] {
                    paths.append(try hierarchy.upload(name).appending(file.name))
                }
                var files: [RemotePath: [UInt8]] = [:]
                for path in paths { files[path] = try await place.bytes(at: path) }
                let store = files[WholeStoreFile.store.path(in: hierarchy.upload(name))] ?? []
                let lines = String(decoding: store, as: UTF8.self).split(separator: "\n").map(String.init)
                uploads[name] = (Set(lines), files)
            }
        }
    }

    /// Records that a device's user holds the edits that a pull brought.
    ///
    /// Edits that are in no head don't count: the user gave them up by naming the upload to pull, or another user by
    /// resolving a divergence, even if the storage hides that from this device. Neither do edits that a later edit removed.
    private func hold(_ index: Int) async throws {
        let heads = try await heads(in: place)
        let edits = heads.reduce(into: Set<String>()) { $0.formUnion($1.edits) }
        members[index].held.formUnion(content(index).intersection(edits).subtracting(removed))
    }

    private struct Head {
        var edits: Set<String>
        /// Whether its store is visible, so that the user can inspect it.
        var isWhole: Bool
    }

    /// Returns the heads that a device can see in its view of the storage.
    private func visibleHeads(_ index: Int) async throws -> [Head] { try await heads(in: members[index].backend) }

    private func heads(in backend: any RemoteBackend) async throws -> [Head] {
        let published = try await PublishedStores.list(DefaultHooks(backend: backend), hierarchy)
        var manifests: [StoreManifest] = []
        for name in published.published {
            let path = hierarchy.manifest(name)
            guard let bytes = try await backend.bytes(at: path) else { continue }
            manifests.append(try StoreManifest(bytes, named: name, at: path))
        }
        let included = manifests.reduce(into: Set<UploadName>()) { $0.formUnion($1.includes) }
        var heads: [Head] = []
        for name in manifests.map(\.name) where !included.contains(name) {
            let store = WholeStoreFile.store.path(in: hierarchy.upload(name))
            let isWhole = try await backend.status(of: store) != nil
            heads.append(Head(edits: uploads[name]?.edits ?? [], isWhole: isWhole))
        }
        return heads
    }

    /// Checks that every edit that the device's user hasn't given up is in its store or in a head.
    private func check(_ index: Int) async throws {
        let heads = try await visibleHeads(index)
        let there = heads.reduce(into: content(index)) { $0.formUnion($1.edits) }
        let lost = members[index].held.subtracting(there)
        guard !lost.isEmpty else { return }
        violation = "\(lost.sorted()) of device \(index) is neither in its store nor in a head"
    }
}
