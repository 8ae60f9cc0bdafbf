import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// `storesync pull`: downloads the newest store and puts it in the local one's place.
struct Pull: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Downloads the newest store of a document and replaces the local one.",
        discussion:
            "Makes neither application nor document. A local store with changes is not replaced unless you say so."
    )

    @Argument(help: "Where the store goes.")
    var store: String

    @Option(help: ArgumentHelp("The document's identifier.", valueName: "id"))
    var document: String

    @Option(help: ArgumentHelp("Take this client's store instead of the newest.", valueName: "client"))
    var from: String?

    @Flag(help: "Lose local changes that were never pushed.")
    var overwrite = false

    @Flag(help: "Take a store older than one that this device has seen.")
    var acceptRollback = false

    @OptionGroup var encryption: EncryptionOptions
    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let start = ContinuousClock.now
            // Before the session, which makes the state directory: bad arguments leave no trace.
            let document = try RemoteIdentifier(document)
            let from = try from.map { try RemoteIdentifier($0) }
            let session = try await Session(options, encryption: encryption, interruption: interruption)
            let request = WholeStoreDownloadRequest(
                url: URL(fileURLWithPath: store),
                client: from,
                overwritesLocalChanges: overwrite,
                acceptsRollback: acceptRollback
            )
            let registration = session.manager.register(mayCreate: false)
            let handle = session.manager.document(document).download(request, after: registration)
            let keychain = session.manager.synchronizeKeychain(after: registration)
            let download = try await session.value(of: handle)
            await session.finish(keychain)
            for warning in download.warnings { session.report.warning(warning) }
            let result = TransferResult(
                command: "pull",
                application: session.manager.application.rawValue,
                client: download.client.rawValue,
                document: document.rawValue,
                from: download.from.rawValue,
                generation: download.generation,
                bytes: download.bytes,
                storedBytes: download.storedBytes,
                encrypted: download.isEncrypted,
                seconds: (ContinuousClock.now - start) / .seconds(1),
                unchanged: download.isUnchanged ? true : nil
            )
            session.report.result(
                result,
                lines: [
                    download.isUnchanged
                        ? "\(document) is at generation \(download.generation) already."
                        : "Pulled \(document), generation \(download.generation) of client \(download.from), \(ByteCount(download.bytes))."
                ]
            )
        }
    }
}
