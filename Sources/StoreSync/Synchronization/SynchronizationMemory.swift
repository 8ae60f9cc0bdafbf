import Foundation
import RemoteStorage
import StoreChanges

/// What this device remembers of synchronizing a document, besides its replica.
struct SynchronizationMemory: Hashable, Sendable, Codable {
    /// The document's origin.
    var origin: UUID
    /// The bytes of the origin's file, which is written again if the remote loses it; `nil` until a synchronization reads it.
    var originFile: Data?
    /// The client as which this device publishes.
    var client: String
    /// The number of the last head that this device began to publish.
    var number: UInt64 = 0
    /// The number of the last own set that was published; `nil` before the first head.
    var sequence: UInt64?
    /// How many sets of other devices the last head had seen, and when it was published.
    var acknowledged: Acknowledgement?
    /// The names of the heads of this client that it published or read last, in that order.
    var heads: [String] = []
    /// This device's files with older change sets.
    var segments: [SyncSegment] = []
    /// Files that were created, and that the next head names if they still hold this device's sets.
    var created: [CreatedSegment]?
    /// The number of the last own set that was removed from the remote, because baselines contain it.
    var removed: UInt64 = 0
    /// The newest baselines that this device knows, the newest first.
    var baselines: [SyncBaseline] = []
    /// The number of the last set that counts of each removed client.
    var removals: [String: UInt64] = [:]
    /// The size of the change sets that came since the newest baseline, in bytes.
    var bytesSinceBaseline: Int64 = 0
    /// The last baseline of its own that this device couldn't write; `nil` after a success.
    var failedBaseline: FailedBaseline?
    /// The store that was synchronized last.
    var lastStore: LastStore?
    /// The base of the store's record when the replica began, or when the store was last found to be another one.
    var base: UploadName?
    /// Since when edits of other devices wait, or when a baseline was last tried for them; `nil` if none wait.
    var waitingSince: Date?
    /// What the last synchronization missed of other devices, clients and warnings, and since when each has been missing.
    var missing: [String: Date]?
    /// When the time of this client's last synchronization was written to the remote.
    var recorded: Date?
    /// The newest head that was read of each other client, by client.
    var others: [String: Head] = [:]

    /// Where a store was, and the state directory.
    ///
    /// If the state directory was copied, the store is the other device's.
    struct LastStore: Hashable, Sendable, Codable {
        var path: LocalPath
        var stateDirectory: LocalPath
    }

    /// A file of a publication that isn't complete.
    struct CreatedSegment: Hashable, Sendable, Codable {
        var segment: SyncSegment
        /// The digest of the last set in it, and so of all before it.
        var digest: [UInt8]
    }

    /// A baseline that couldn't be written.
    struct FailedBaseline: Hashable, Sendable, Codable {
        var date: Date
        /// How long this device writes no other one by itself, in seconds.
        var wait: TimeInterval
    }

    /// What a head told other devices of what this one has seen: they keep what may be undone until then.
    struct Acknowledgement: Hashable, Sendable, Codable {
        /// How many sets of other clients the store contained.
        var sets: UInt64
        var date: Date

        init(_ head: ClientHead, at date: Date) {
            sets = head.seenCount
            self.date = date
        }

        private static let maximumSets: UInt64 = 64
        private static let maximumAge: TimeInterval = 24 * 60 * 60

        /// Whether it's time for another head, although this device has no new sets: also if its clock was ahead before.
        func isOutdated(by newer: Acknowledgement) -> Bool {
            newer.sets >= sets + Self.maximumSets
                || newer.sets > sets && abs(newer.date.timeIntervalSince(date)) > Self.maximumAge
        }
    }

    /// The newest head of another client.
    struct Head: Hashable, Sendable, Codable {
        /// The name of its file; `nil` if it has to be read again.
        var name: String?
        var number: UInt64
        var sequence: UInt64
        /// The names of its other files that were read and are still there: a copy of the client may have published them.
        var copies: Set<String>?

        /// Whether a head was read.
        func includes(_ head: SyncHeadName) -> Bool { name == head.name || copies?.contains(head.name) == true }
    }

    /// How many names of heads are remembered, to tell them from the heads of a copy of this device.
    private static let rememberedHeads = 64

    init(origin: UUID, client: RemoteIdentifier) {
        self.origin = origin
        self.client = client.rawValue
    }

    /// Forgets which heads were read, because the replica may lack sets that they name: they are read again.
    ///
    /// How far each client was stays, so that it's noticed if the storage has lost something.
    mutating func readHeadsAgain() {
        heads = []
        for client in others.keys {
            others[client]?.name = nil
            others[client]?.copies = nil
        }
    }

    /// The number of the last set that a head of each other client has named.
    var lastSetsNamedByHeads: [ClientID: UInt64] {
        Dictionary(uniqueKeysWithValues: others.map { (ClientID(rawValue: $0), $1.sequence) })
    }

    /// Notes which heads were read.
    mutating func note(_ news: SyncCatalog.News) {
        bytesSinceBaseline += news.sets.reduce(0) { $0 + Int64($1.byteCount) }
        for head in news.heads {
            note(head.baselines)
            removals.merge(head.removals, uniquingKeysWith: max)
            if head.name.client.rawValue == client {
                // A copy of this device published it.
                note(head.name)
            } else {
                note(head.name, of: head.name.client.rawValue, besides: news.listed)
            }
        }
    }

    private mutating func note(_ head: SyncHeadName, of client: String, besides listed: Set<String>) {
        let former = others[client]
        let known = (former?.copies ?? []).union([head.name, former?.name].compactMap(\.self)).intersection(listed)
        if let former, let name = former.name, former.number >= head.number {
            others[client]?.copies = known.subtracting([name])
        } else {
            let copies = known.subtracting([head.name])
            others[client] = Head(name: head.name, number: head.number, sequence: head.sequence, copies: copies)
        }
    }

    /// Notes baselines.
    mutating func note(_ others: [SyncBaseline]) {
        let newest = SyncBaseline.newest(of: baselines + others)
        if newest.first != baselines.first { bytesSinceBaseline = 0 }
        baselines = newest
    }

    private static let shortestWaitForBaseline: TimeInterval = 60 * 60
    private static let longestWaitForBaseline: TimeInterval = 24 * 60 * 60

    /// Notes that a baseline couldn't be written: each failure that follows another doubles the wait, up to a day.
    mutating func noteFailedBaseline(at now: Date) {
        let wait = failedBaseline.map { min(2 * $0.wait, Self.longestWaitForBaseline) } ?? Self.shortestWaitForBaseline
        failedBaseline = FailedBaseline(date: now, wait: wait)
    }

    /// Whether a baseline couldn't be written a short time ago: another attempt would send the store in vain, too.
    func waitsAfterFailedBaseline(at now: Date) -> Bool {
        failedBaseline.map { abs(now.timeIntervalSince($0.date)) < $0.wait } ?? false
    }

    /// The files of a former attempt to publish sets, as far as they hold exactly the first of these.
    func created(for sets: [SynchronizedStore.PublishedSet]) -> [SyncSegment] {
        let digests = Dictionary(sets.map { ($0.sequence, $0.digest.rawValue) }) { first, _ in first }
        var next = sets.first?.sequence
        return (created ?? []).prefix { file in
            guard file.segment.first == next, digests[file.segment.last] == file.digest else { return false }
            next = file.segment.last + 1
            return true
        }.map(\.segment)
    }

    /// Forgets the files whose sets are superfluous, and returns them.
    mutating func forgetSegments(upTo last: UInt64) -> [SyncSegment] {
        let superfluous = Array(segments.prefix { $0.last <= last })
        segments.removeFirst(superfluous.count)
        removed = max(removed, superfluous.last?.last ?? 0)
        // A head may leave out sets, too.
        if segments.isEmpty { removed = max(removed, min(last, sequence ?? 0)) }
        return superfluous
    }

    /// How old the time on the remote may be, so that a device without news writes nothing.
    private static let maximumRecordAge: TimeInterval = 30 * 60

    /// Whether lists show too old a time of this client's last synchronization.
    func isRecordOutdated(at now: Date) -> Bool {
        recorded.map { abs(now.timeIntervalSince($0)) > Self.maximumRecordAge } ?? true
    }

    /// How long edits wait for others to arrive before a baseline is tried that may contain them.
    private static let patience: TimeInterval = 24 * 60 * 60

    /// Notes what a synchronization missed of other devices: clients whose edits wait for others, and warnings.
    mutating func noteMissing(_ missing: [String], at now: Date) {
        waitingSince = missing.isEmpty ? nil : waitingSince ?? now
        self.missing = Dictionary(missing.map { ($0, self.missing?[$0] ?? now) }) { first, _ in first }
    }

    /// Whether edits have waited so long that a baseline may be the only file that still contains them.
    func hasWaitedLong(at now: Date) -> Bool { waitingSince.map { Self.isLong(since: $0, now) } ?? false }

    /// Whether the edits that are missing have been missing for so long that they won't arrive.
    func missesOnlyLostEdits(at now: Date) -> Bool {
        (missing ?? [:]).values.allSatisfy { Self.isLong(since: $0, now) }
    }

    private static func isLong(since date: Date, _ now: Date) -> Bool { abs(now.timeIntervalSince(date)) > patience }

    /// The name of this client's newest head, which copies of the client may have published: they all keep the same one.
    var newestHead: SyncHeadName? { heads.compactMap { SyncHeadName($0) }.max { $0.precedes($1) } }

    /// The name of this client's newest head; none if it has published none.
    var lastHead: [SyncHeadName] { [newestHead].compactMap(\.self) }

    /// Notes a head of this client.
    mutating func note(_ own: SyncHeadName) {
        heads = (heads + [own.name]).suffix(Self.rememberedHeads)
        number = max(number, own.number)
    }

    /// Begins to publish as another client.
    mutating func become(_ other: RemoteIdentifier) {
        var next = SynchronizationMemory(origin: origin, client: other)
        (next.others, next.baselines, next.removals) = (others, baselines, removals)
        (next.lastStore, next.base, next.originFile) = (lastStore, base, originFile)
        self = next
    }
}

extension ClientHead {
    /// How many sets of other clients the client's store contains.
    var seenCount: UInt64 { SyncVector.total(seen.values.map(\.sequence)) }
}

extension StateDirectory {
    /// What this device remembers of synchronizing the document with an integrity key; `nil` if it never did.
    func synchronization(of key: DocumentKey, _ integrityKey: String) throws -> SynchronizationMemory? {
        try read { try StateSchema.fetch(SynchronizationMemory.self, $0, "synchronization \(integrityKey)", key) }
    }

    /// Remembers how far synchronizing a document is.
    func setSynchronization(_ memory: SynchronizationMemory, of key: DocumentKey, _ integrityKey: String) throws {
        guard try synchronization(of: key, integrityKey) != memory else { return }
        try write("synchronization") { try StateSchema.save(memory, $0, "synchronization \(integrityKey)", key) }
    }
}
