import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// `storesync pull`: downloads the newest store and replaces the local one.
struct Pull: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pull",
        abstract: "Downloads the newest store of a document and replaces the local one.",
        discussion:
            "Creates neither application nor document. A local store with changes is replaced only with --overwrite."
    )

    @Argument(help: "The path of the local store.")
    var store: String

    @Option(help: ArgumentHelp("The document's identifier.", valueName: "id"))
    var document: String

    @Option(help: ArgumentHelp("Take this client's store instead of the newest.", valueName: "client"))
    var from: String?

    @Option(
        help: ArgumentHelp(
            "Take this generation of that client, even if a newer one was seen. Needs --from.",
            valueName: "n"
        )
    )
    var generation: String?

    @Flag(help: "Discard local changes that were never pushed, or the store of a document that was created again.")
    var overwrite = false

    @Flag(help: "Take a store even if this device has seen a newer one.")
    var acceptRollback = false

    @OptionGroup var encryption: EncryptionOptions
    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let start = ContinuousClock.now
            // Before the session, which creates the state directory: bad arguments leave no trace.
            let document = try RemoteIdentifier(document)
            let upload = try wantedUpload()
            let url = try URL(storeAt: store)
            let session = try await Session(options, encryption: encryption, interruption: interruption)
            let request = WholeStoreDownloadRequest(
                url: url,
                upload: upload,
                overwritesLocalChanges: overwrite,
                acceptsRollback: acceptRollback
            )
            let registration = session.manager.register(mayCreate: false)
            let handle = session.manager.document(document).download(request, registeredBy: registration)
            let keychain = session.manager.synchronizeKeychain(registeredBy: registration)
            let download = try await session.value(of: handle)
            await session.finish(keychain)
            var result = session.result(of: download, command: "pull", document: document, since: start)
            result.from = download.from.rawValue
            try session.report.result(
                result,
                lines: [
                    download.isUnchanged
                        ? "\(document) is at generation \(download.generation) already."
                        : "Pulled \(document), generation \(download.generation) of client \(download.from), \(download.bytes.byteCount)."
                ]
            )
        }
    }

    /// The upload that the options name.
    ///
    /// If a client has two uploads of a generation, a hyphen and the beginning of an upload's identifier may follow the
    /// number.
    private func wantedUpload() throws -> WholeStoreDownloadRequest.Upload? {
        guard let from else {
            guard generation == nil else { throw UsageError("--generation needs --from: name its client.") }
            return nil
        }
        var upload = WholeStoreDownloadRequest.Upload(of: try RemoteIdentifier(from))
        guard let generation else { return upload }
        let parts = generation.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard let number = parts.first.flatMap({ Int($0) }), number > 0, parts.last?.isEmpty == false else {
            throw UsageError(
                "“\(generation)” isn't a generation. Give a number, as storesync status lists it."
            )
        }
        upload.generation = number
        if parts.count == 2 { upload.identifier = String(parts[1]) }
        return upload
    }
}
