import ArgumentParser
import Foundation
import RemoteStorage
import StoreChanges
import StoreSync

/// `storesync sync`: merges what this and other devices edited at once.
struct Sync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sync",
        abstract: "Synchronizes an SQLite database record by record: edits of several devices are merged.",
        discussion: """
            The first device uploads its store. On another device the store is created. `storesync check` says which \
            tables synchronize. Devices whose apps are older continue to synchronize after a compatible change of the schema.
            """
    )

    @Argument(help: "The store: an SQLite database.")
    var store: String

    @Option(help: ArgumentHelp("The document's identifier.", valueName: "id"))
    var document: String

    @Flag(help: "Publish the edits even if more than half of the rows of a table of over 100 rows are gone.")
    var allowDeletions = false

    @Flag(help: "Change and publish nothing; say what a synchronization would do.")
    var dryRun = false

    @Flag(
        help:
            "Build this device's record of the document again, if it's damaged or differs from other devices'. If it can't be read any more, changed rows may be there twice, and deleted ones come back."
    )
    var rebuild = false

    @Option(
        help: ArgumentHelp(
            "What counts if the store is a copy, a backup or another one: local, remote or both.",
            valueName: "side"
        ),
        transform: TakenSide.init(argument:)
    )
    var take: TakenSide?

    @Option(
        help: ArgumentHelp(
            "What the schema doesn't say, in JSON: for the document's first synchronization.",
            valueName: "file"
        )
    )
    var rules: String?

    @Flag(
        help: """
            Run until interrupted: synchronize whenever the store or the remote changes. With --json, each \
            synchronization is one object on one line.
            """
    )
    var watch = false

    @OptionGroup var encryption: EncryptionOptions
    @OptionGroup var options: CommonOptions

    func validate() throws {
        if watch, dryRun {
            throw ValidationError("--watch and --dry-run contradict each other. Give only one of them.")
        }
        if rebuild, dryRun {
            throw ValidationError("--dry-run can't say what --rebuild would do. Give only one of them.")
        }
    }

    struct Result: Encodable {
        struct Rows: Encodable {
            let inserted: Int
            let updated: Int
            let deleted: Int
        }

        struct Published: Encodable {
            let changes: Int
            /// The size of the files of change sets, without an uploaded store; with `--dry-run`, the size of the edits alone.
            let bytes: Int64
        }

        var command = "sync"
        let application: String
        let client: String
        let document: String
        /// Whether the whole store was uploaded or downloaded; `nil` if only edits travelled.
        let transfer: String?
        let sequence: UInt64
        let applied: [String: Rows]
        let published: Published
        let conflicts: Int
        let waitingFor: [String]
        /// In full sentences; `nil` if there are none.
        let warnings: [String]?
        let seconds: Double
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let start = ContinuousClock.now
            let document = try RemoteIdentifier(document)
            let request = SynchronizationRequest(
                url: try URL(storeAt: store),
                allowsDeletions: allowDeletions,
                takenSide: take,
                rules: try rules.map { try SyncRules(readingFileAt: $0) },
                rebuildsReplica: rebuild,
                isPreview: dryRun
            )
            let session = try await Session(options, encryption: encryption, interruption: interruption)
            let manager = session.manager.document(document)
            if dryRun { try manager.refuseEarlyPreview() }
            if watch { return try await follow(manager.watch(request), session, interruption) }
            let synchronized = try await session.value(of: manager.synchronize(request))
            for warning in synchronized.warnings { session.report.warning(warning) }
            try report(synchronized, since: start, to: session)
        }
    }

    /// Prints what a synchronization did.
    func report(_ synchronized: Synchronization, since start: ContinuousClock.Instant, to session: Session) throws {
        try session.report.result(
            Result(
                application: session.manager.application.rawValue,
                client: synchronized.client.rawValue,
                document: document,
                transfer: synchronized.transfer.map { $0 == .uploaded ? "uploaded" : "downloaded" },
                sequence: synchronized.sequence,
                applied: synchronized.applied.mapValues {
                    Result.Rows(inserted: $0.inserted, updated: $0.updated, deleted: $0.deleted)
                },
                published: Result.Published(
                    changes: synchronized.publishedChanges,
                    bytes: synchronized.publishedBytes
                ),
                conflicts: synchronized.conflicts,
                waitingFor: synchronized.waitingFor.map(\.rawValue),
                warnings: synchronized.warnings.isEmpty ? nil : synchronized.warnings,
                seconds: (ContinuousClock.now - start) / .seconds(1)
            ),
            lines: lines(synchronized)
        )
    }

    private func lines(_ synchronized: Synchronization) -> [String] {
        var lines = [heading(synchronized)] + applied(synchronized).map { "  \($0)" }
        if synchronized.conflicts > 0 {
            let edits = edits(synchronized.conflicts)
            lines.append(
                dryRun
                    ? "Merging would overwrite or leave out \(edits)."
                    : "Merging overwrote or left out \(edits): storesync conflicts \(store) lists them."
            )
        }
        if !synchronized.waitingFor.isEmpty {
            let clients = synchronized.waitingFor.map(\.rawValue).joined(separator: ", ")
            lines.append("Edits of \(clients) wait until other edits have arrived, or until the app is updated.")
        }
        return lines
    }

    private func heading(_ synchronized: Synchronization) -> String {
        let published = "published \(edits(synchronized.publishedChanges))"
        if dryRun { return "Would synchronize \(document), and publish \(edits(synchronized.publishedChanges))." }
        guard let transfer = transfer(synchronized) else { return "Synchronized \(document): \(published)." }
        let what = synchronized.publishedChanges > 0 ? "\(transfer), \(published)" : transfer
        return "Synchronized \(document): \(what)."
    }

    /// How the whole store travelled; `nil` if only edits did.
    func transfer(_ synchronized: Synchronization) -> String? {
        let name = URL(named: store).lastPathComponent
        return synchronized.transfer.map { $0 == .uploaded ? "uploaded \(name)" : "downloaded \(name)" }
    }

    /// How many rows of each table were applied.
    func applied(_ synchronized: Synchronization) -> [String] {
        synchronized.applied.sorted { $0.key < $1.key }.map { table, counts in
            "\(table): \(counts.inserted) inserted, \(counts.updated) updated, \(counts.deleted) deleted"
        }
    }

    func edits(_ count: Int) -> String { count.of("edit") }
}

extension TakenSide {
    fileprivate init(argument: String) throws {
        guard let side = TakenSide(rawValue: argument) else {
            throw ValidationError("--take is one of \(TakenSide.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        self = side
    }
}
