import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// `storesync push`: registers device, application and document if they aren't registered, and uploads a store.
struct Push: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push",
        abstract: "Uploads a store as the next generation of a document.",
        discussion: """
            The store may be open and written to during the push. Creates application and document if they don't exist.

            What an interrupted push has sent counts for nothing. It stays on the storage until this device's next push, or \
            until verify --repair on this device.
            """
    )

    @Argument(help: "The store: an SQLite database, or any other file.")
    var store: String

    @Option(help: ArgumentHelp("The document's identifier.", valueName: "id"))
    var document: String

    @Flag(help: "Create the document again if it was deleted.")
    var recreate = false

    @Flag(
        help: """
            Replace every newest store, even if this store doesn't have its edits. With --whole, even if its files are \
            lost.
            """
    )
    var resolves = false

    @Flag(help: "Upload a whole copy that relies on nothing on the remote, to repair what was lost or damaged there.")
    var whole = false

    @Option(help: "How hard the store is compressed if it's encrypted: auto goes up while the storage is slow.")
    var compression = CompressionOption.auto

    @OptionGroup var encryption: EncryptionOptions
    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let start = ContinuousClock.now
            // Before the session, which creates the state directory: bad arguments leave no trace.
            let document = try RemoteIdentifier(document)
            let url = try URL(storeAt: store)
            let session = try await Session(
                options,
                encryption: encryption,
                recreates: recreate,
                interruption: interruption
            )
            let registration = session.manager.register(uploading: url)
            let request = WholeStoreUploadRequest(
                url: url,
                resolvesDivergence: resolves,
                isWhole: whole,
                compression: compression.compression
            )
            let handle = session.manager.document(document).upload(request, registeredBy: registration)
            let keychain = session.manager.synchronizeKeychain(registeredBy: registration)
            let upload = try await session.value(of: handle)
            await session.finish(keychain)
            let result = session.result(of: upload, command: "push", document: document, since: start)
            try session.report.result(
                result,
                lines: [
                    upload.isUnchanged
                        ? "\(document) is unchanged since generation \(upload.generation)."
                        : "Pushed \(document), generation \(upload.generation), \(upload.bytes.byteCount)."
                ]
            )
        }
    }
}
