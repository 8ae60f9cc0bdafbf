import Foundation
import RemoteStorage
import StoreChanges
import SyncCryptography
import ThreadSupport

/// The heads of a document's clients, and the files with their older change sets.
struct SyncCatalog: Sendable {
    let hooks: any SynchronizationHooks
    let hierarchy: DocumentHierarchy
    let seal: ApplicationSeal
    /// The identity that the document's files are sealed for.
    let identity: DocumentIdentity
    /// The document's origin, to which heads and segments belong.
    let origin: UUID
    /// Where the sets of other devices go.
    var inbox = ChangeSetInbox(in: FileManager.default.temporaryDirectory)
    /// Returns which of some clients were removed.
    var removed: @Sendable (Set<RemoteIdentifier>) async throws -> Set<RemoteIdentifier> = { _ in [] }
    /// Returns whether this device has a set.
    var has: @Sendable (SetReference) async throws -> Bool = { _ in false }

    /// The maximum number of heads read at a time.
    private static let headsAtATime = 16
    /// The maximum number of files with older sets read at a time, of all clients together.
    private static let segmentsAtATime = 4
    /// The size of a file, in bytes, beyond which it is read alone: only a file with a single large set has more.
    private static let sharedBytes = SyncSegment.usualBytes + 1 << 20
    /// The maximum number of heads of one client that are read in a synchronization.
    private static let headsOfOneClient = 8
    /// How often a head that was replaced meanwhile is looked up again.
    private static let maximumListings = 4

    /// Fetches the change sets that this device doesn't have.
    ///
    /// What can't be read holds up no other client: it may still be arriving. If a client's head is older than a head that
    /// was read before, no sets are fetched.
    ///
    /// - Parameters:
    ///   - client: This client. A copy of this device, or this device before it was restored from a backup, may have
    ///     published sets as this client, too.
    ///   - known: The last set of each client that this device has.
    ///   - memory: What this device remembers of heads.
    ///   - listing: The heads that the remote has just listed; `nil` to list them.
    /// - Returns: The sets.
    /// - Throws: ``StoreSyncError``.
    func news(
        for client: RemoteIdentifier,
        besides known: [ClientID: SeenSet],
        _ memory: SynchronizationMemory,
        listing: [String]? = nil
    ) async throws -> News {
        var news = try await newHeads(for: client, memory, listing: listing)
        // A removed client doesn't publish again what the storage has lost of it. The removal's note may be lost by now, too.
        let noted = news.log.removals
        news.rolledBack.removeAll { noted[ClientID(rawValue: $0.rawValue)] != nil }
        if !news.rolledBack.isEmpty {
            let removed = try await removed(Set(news.rolledBack))
            news.rolledBack.removeAll(where: removed.contains)
        }
        news.gaps = news.gaps(besides: known, memory)
        guard news.gaps.isEmpty, news.rolledBack.isEmpty else { return news }
        try await fetchSets(&news, besides: known)
        return news
    }

    /// Reads the newest head of each client that this device doesn't know yet.
    private func newHeads(
        for client: RemoteIdentifier,
        _ memory: SynchronizationMemory,
        listing: [String]?
    ) async throws -> News {
        var news = News()
        var listing = listing
        for _ in 0..<Self.maximumListings {
            let listed = if let first = listing.take() { first } else { try await hooks.listSyncHeads(hierarchy) }
            let names = listed.compactMap { SyncHeadName($0) }
            let unknown = Dictionary(grouping: names.filter { !memory.heads.contains($0.name) }, by: \.client)
            let searches = try await unknown.sorted { $0.key < $1.key }.concurrentMap(atMost: Self.headsAtATime) {
                try await newest(among: $0.value, of: $0.key, memory)
            }
            news = News(
                heads: searches.flatMap(\.heads),
                listed: Set(names.map(\.name)),
                own: names.filter { $0.client == client },
                rolledBack: searches.filter(\.isRolledBack).map(\.client),
                removals: memory.removals,
                warnings: searches.flatMap(\.warnings),
                unreadable: Set(searches.filter { !$0.warnings.isEmpty }.map(\.client))
            )
            // A head that its client has replaced since the listing isn't there any more, but the next one is.
            guard searches.contains(where: \.isReplaced) else { break }
        }
        return news
    }

    /// Fetches the sets that heads name, and leaves out the heads whose sets can't be read.
    private func fetchSets(_ news: inout News, besides known: [ClientID: SeenSet]) async throws {
        let results = try await sets(of: news.heads, besides: known)
        for (head, result) in zip(news.heads, results) {
            news.sets += result.value ?? []
            guard let warning = result.warning else { continue }
            news.warnings.append(warning)
            news.unreadable.insert(head.name.client)
            news.incomplete.insert(head.name.client)
        }
        // So that the next synchronization reads it again.
        news.heads = zip(news.heads, results).filter { $0.1.value != nil }.map(\.0)
    }

    // MARK: Heads

    /// The newest head of each client, as far as it can be read.
    func newestHeads(among names: [SyncHeadName]) async throws -> [SyncHead] {
        let byClient = Dictionary(grouping: names, by: \.client).sorted { $0.key < $1.key }
        return try await byClient.concurrentMap(atMost: Self.headsAtATime) {
            let memory = SynchronizationMemory(origin: origin, client: $0.key)
            return try await newest(among: $0.value, of: $0.key, memory).heads.first
        }.compactMap(\.self)
    }

    /// The heads that aren't authentic, or have not arrived completely.
    func unreadableHeads(among names: [SyncHeadName]) async throws -> [SyncHeadName] {
        try await names.concurrentMap(atMost: Self.headsAtATime) { name in
            try await readable { try await head(name) }.warning.map { _ in name }
        }.compactMap(\.self)
    }

    /// The newest heads of a client that can be read.
    private struct Search: Sendable {
        let client: RemoteIdentifier
        /// The heads that this device hasn't read before: several if a copy of the client has published some.
        var heads: [SyncHead] = []
        /// Whether a head was replaced since the listing.
        var isReplaced = false
        /// Whether the client has published more than the remote shows.
        var isRolledBack = false
        var warnings: [String] = []
    }

    /// Finds the newest head of a client, unless this device has read it before.
    ///
    /// A name alone says nothing: another file may have it. Of one number there are several if the client was copied, or
    /// restored from a backup. Then an older head, too, may name sets for which this device waits.
    private func newest(
        among names: [SyncHeadName],
        of client: RemoteIdentifier,
        _ memory: SynchronizationMemory
    ) async throws -> Search {
        var search = Search(client: client)
        let former = memory.others[client.rawValue]
        var shown: (number: UInt64, sequence: UInt64)?
        for name in names.sorted(by: { $1.precedes($0) }) where search.heads.count < Self.headsOfOneClient {
            let showsAll = shown.map { $0.number > name.number && $0.sequence >= former?.sequence ?? 0 } ?? false
            guard memory.waitingSince != nil || !showsAll else { break }
            if former?.includes(name) != true {
                let result = try await readable(describing: { warning(of: $0, at: name) }) { try await head(name) }
                search.warnings += [result.warning].compactMap(\.self)
                guard let read = result.value else { continue }
                guard let head = read else {
                    search.isReplaced = search.isReplaced || shown == nil
                    continue
                }
                search.heads.append(head)
            }
            shown = (shown?.number ?? name.number, max(shown?.sequence ?? 0, name.sequence))
        }
        if let former, let shown, shown.number < former.number || shown.sequence < former.sequence {
            search.isRolledBack = true
            search.heads = []
        }
        return search
    }

    /// A warning that a head can't be read; only an authentic head says that there are edits.
    private func warning(of error: StoreSyncError, at name: SyncHeadName) -> String {
        guard let cause = error.cause as? CryptographyError, cause.code == .tampered else {
            return Self.warning(ofWaitingEdits: SyncSegment.writtenAgain(by: name.client, error))
        }
        let path = hierarchy.syncHead(name)
        return """
            \(path) on the remote isn't authentic under that name, so it's ignored: it is another document's, or was changed, \
            exchanged or damaged. If this lasts, \(SyncSegment.remedy(by: name.client))
            """
    }

    private static func warning(ofWaitingEdits error: StoreSyncError) -> String {
        "Edits of another device wait. \(error.message)"
    }

    /// Returns what `body` reads, or a warning if the file isn't authentic, or has not arrived completely.
    private func readable<Value: Sendable>(
        describing warning: (StoreSyncError) -> String = Self.warning(ofWaitingEdits:),
        _ body: () async throws -> Value
    ) async throws -> (value: Value?, warning: String?) {
        do {
            return (try await body(), nil)
        } catch let error as StoreSyncError where [.corrupt, .tampered, .orphan, .noUploadedStore].contains(error.code)
        {
            return (nil, warning(error))
        }
    }

    /// Reads a head; `nil` if it isn't there any more.
    private func head(_ name: SyncHeadName) async throws -> SyncHead? {
        let path = hierarchy.syncHead(name)
        guard let bytes = try await fetch(path, upTo: SyncFileName.maximumBytes(at: path)) else { return nil }
        let opened = try open(bytes, as: .syncHead(name, since: origin, of: identity), at: path)
        return try SyncHead(opened, named: name, since: origin, at: path)
    }

    /// How the files of a head are read.
    private struct FileReading: Sendable {
        /// The maximum size of each, in bytes.
        var maximumBytes: Int
        /// The maximum number read at a time.
        var filesAtATime: Int
    }

    /// A file is too large to be read at the same time as others.
    private struct LargeFile: Error {}

    /// The sets that heads name, or a warning for each head whose sets can't be read.
    ///
    /// Files of usual sizes are read at the same time. If a head names larger ones, its files are read one by one.
    private func sets(
        of heads: [SyncHead],
        besides known: [ClientID: SeenSet]
    ) async throws -> [(value: [ReceivedSet]?, warning: String?)] {
        let readers = heads.count { head in
            head.segments.contains { $0.last > known[head.content.client]?.sequence ?? 0 }
        }
        let shared = FileReading(
            maximumBytes: Self.sharedBytes,
            filesAtATime: max(1, Self.segmentsAtATime / max(1, readers))
        )
        var results = try await heads.concurrentMap(atMost: Self.segmentsAtATime) { head in
            do {
                return try await readable { try await sets(of: head, after: known[head.content.client], shared) }
            } catch is LargeFile {
                return (nil, nil)
            }
        }
        let alone = FileReading(maximumBytes: SyncFileName.maximumSegmentBytes, filesAtATime: 1)
        for (index, head) in heads.enumerated() where results[index].value == nil && results[index].warning == nil {
            results[index] = try await readable { try await sets(of: head, after: known[head.content.client], alone) }
        }
        return results
    }

    /// The sets that a head names, after the last set that this device has.
    ///
    /// If they don't follow that one, another device has published sets as the same client: then it's all of them.
    private func sets(
        of head: SyncHead,
        after known: SeenSet?,
        _ reading: FileReading
    ) async throws -> [ReceivedSet] {
        guard let last = head.content.last, last != known,
            try await !has(SetReference(SetID(head.content.client, last.sequence), last.digest))
        else {
            return []
        }
        let sets = try await sets(of: head, after: known?.sequence ?? 0, reading)
        let isContinued = sets.first?.header.predecessor == known?.digest ?? SetDigest.none
        return isContinued ? sets : try await self.sets(of: head, after: 0, reading)
    }

    private func sets(
        of head: SyncHead,
        after last: UInt64,
        _ reading: FileReading
    ) async throws -> [ReceivedSet] {
        let client = head.name.client
        let segments = head.segments.filter { $0.last > last }
        let older = try await segments.concurrentMap(atMost: reading.filesAtATime) { segment in
            try await received(sets(in: segment, of: client, upTo: reading.maximumBytes), after: last)
        }
        let all = older.flatMap(\.self) + (try await received(head.tail, after: last))
        try check(all, named: head)
        return all
    }

    /// Checks that each set is what its successor names, and the last one what the head names.
    ///
    /// Without encryption, a damaged set may still be readable.
    private func check(_ sets: [ReceivedSet], named head: SyncHead) throws {
        let named = sets.dropFirst().map(\.header.predecessor) + [head.content.last?.digest]
        for (set, digest) in zip(sets, named) where set.digest != digest {
            let (client, number) = (head.name.client, set.header.id.sequence)
            let segment = head.segments.first { $0.numbers.contains(number) }
            let path = segment.map { hierarchy.syncSegment($0, of: client) } ?? hierarchy.syncHead(head.name)
            let reason = "its change set \(number) isn't what the next one names"
            throw SyncSegment.damaged(path, reason, by: client)
        }
    }

    /// Reads a file with older change sets of a client.
    private func sets(
        in segment: SyncSegment,
        of client: RemoteIdentifier,
        upTo limit: Int
    ) async throws -> [EncodedChangeSet] {
        let path = hierarchy.syncSegment(segment, of: client)
        guard let bytes = try await fetch(path, upTo: limit) else {
            throw StoreSyncError(
                .noUploadedStore,
                """
                \(path) on the remote has not arrived, but a newer file names it. Synchronize again later. If it stays \
                missing, \(SyncSegment.remedy(by: client))
                """
            )
        }
        do {
            let role = ApplicationSeal.Role.syncSegment(segment, by: client, since: origin, of: identity)
            let opened = try open(consume bytes, as: role, at: path)
            return try EncodedSets.decode(opened[...], segment.first..<segment.last + 1, of: client, at: path)
        } catch let error as StoreSyncError where [.corrupt, .tampered].contains(error.code) {
            throw SyncSegment.writtenAgain(by: client, error)
        }
    }

    /// Whether other devices can read sets of a client from a file.
    func has(_ sets: [EncodedChangeSet], in segment: SyncSegment, of client: RemoteIdentifier) async throws -> Bool {
        let limit = SyncFileName.maximumSegmentBytes
        let read = try await readable { try await self.sets(in: segment, of: client, upTo: limit) }.value
        return read?.map(\.digest) == sets.map(\.digest)
    }

    /// Puts sets after a number into the inbox.
    private func received(_ sets: [EncodedChangeSet], after last: UInt64) async throws -> [ReceivedSet] {
        try await runBlocking(on: nil) { [inbox] in
            try StoreSyncError.translating {
                try sets.filter { $0.header.id.sequence > last }.map { try inbox.add($0) }
            }
        }
    }

    private func fetch(_ path: RemotePath, upTo limit: Int) async throws -> [UInt8]? {
        do {
            return try await hooks.fetchSyncFile(at: path, upTo: limit)
        } catch let error as RemoteError where error.code == .wrongLength {
            guard limit == SyncFileName.maximumBytes(at: path) else { throw LargeFile() }
            throw StoreSyncError.corrupt(path, "it has more than \(limit) bytes")
        }
    }

    private func open(_ bytes: [UInt8], as role: ApplicationSeal.Role, at path: RemotePath) throws -> [UInt8] {
        try seal.open(bytes, as: role, at: path, upTo: SyncFileName.maximumBytes(at: path))
    }

    // MARK: Publishing

    /// Creates a file with older change sets of a client.
    func create(_ segment: SyncSegment, _ sets: [EncodedChangeSet], by client: RemoteIdentifier) async throws -> Int {
        let role = ApplicationSeal.Role.syncSegment(segment, by: client, since: origin, of: identity)
        let sealed = seal.seal(EncodedSets.encode(sets), as: role)
        try await create(sealed, at: hierarchy.syncSegment(segment, of: client))
        return sealed.count
    }

    /// Creates a head.
    func create(_ head: SyncHead) async throws -> Int {
        let sealed = seal.seal(head.bytes, as: .syncHead(head.name, since: origin, of: identity))
        try await create(sealed, at: hierarchy.syncHead(head.name))
        return sealed.count
    }

    private func create(_ sealed: [UInt8], at path: RemotePath) async throws {
        guard try await hooks.createSyncFile(sealed, at: path) else {
            throw StoreSyncError(.busy, "Another file is at \(path) on the remote. Synchronize again.")
        }
    }
}
