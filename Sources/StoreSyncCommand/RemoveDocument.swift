import ArgumentParser
import Operations
import RemoteStorage
import StoreSync

/// `storesync remove document`.
struct RemoveDocument: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "document",
        abstract: "Removes a document for all devices.",
        discussion: """
            All uploads of the document are removed, and this device forgets what merging overwrote in it. Local stores \
            stay. Devices that knew the document are told when they push, pull or synchronize; storesync push --recreate \
            creates it again.
            """
    )

    @Argument(help: "The document's identifier, as storesync list documents shows it.")
    var document: String

    @OptionGroup var confirmation: ConfirmationOptions
    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let document = try RemoteIdentifier(document)
            let application = try options.application()
            try await confirmation.confirm("Remove document \(document) from \(application), for all devices?")
            let session = try await Session(options, interruption: interruption)
            let removal = try await session.value(of: session.manager.removeDocument(document))
            for warning in removal.warnings { session.report.warning(warning) }
            try session.report.result(
                RemovalResult(
                    command: "remove document",
                    application: application.rawValue,
                    document: document.rawValue
                ),
                lines: ["Removed document \(document)."]
            )
        }
    }
}
