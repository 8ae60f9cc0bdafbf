import ArgumentParser
import Operations
import RemoteStorage
import StoreSync

/// `storesync remove client`.
struct RemoveClient: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client",
        abstract: "Removes a client that is no longer in use.",
        discussion: """
            Its uploads stay until another client's upload includes them. If the client comes back, it has to be set up again, \
            as another client. A client that was removed from a document has to pull it again, or \
            synchronizes as another client.
            """
    )

    @Argument(help: "The client's identifier, as storesync list clients shows it.")
    var client: String

    @Option(help: ArgumentHelp("Remove it from this document alone.", valueName: "id"))
    var document: String?

    @OptionGroup var confirmation: ConfirmationOptions
    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let client = try RemoteIdentifier(client)
            let document = try document.map { try RemoteIdentifier($0) }
            let place = document.map { "\($0)" } ?? "the application"
            try await confirmation.confirm("Remove client \(client) from \(place)?")
            let session = try await Session(options, interruption: interruption)
            let removal = try await session.value(of: session.manager.removeClient(client, from: document))
            for warning in removal.warnings { session.report.warning(warning) }
            try session.report.result(
                RemovalResult(
                    command: "remove client",
                    application: session.manager.application.rawValue,
                    document: document?.rawValue,
                    client: client.rawValue
                ),
                lines: ["Removed client \(client) from \(place)."]
            )
        }
    }
}
