import ArgumentParser
import Operations
import RemoteStorage
import StoreSync

/// `storesync remove`: removes clients.
struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Removes a client from an application.",
        subcommands: [RemoveClient.self]
    )
}

/// `storesync remove client`.
struct RemoveClient: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client",
        abstract: "Removes a client that is no longer in use.",
        discussion: """
            Its uploads stay until another client's upload includes them. If the client comes back, it has to be set up again, \
            as another client.
            """
    )

    @Argument(help: "The client's identifier, as storesync status lists it.")
    var client: String

    @Option(help: ArgumentHelp("Remove it from this document alone.", valueName: "id"))
    var document: String?

    @Flag(help: "Don't ask.")
    var yes = false

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        var command = "remove client"
        let application: String
        let client: String
        let document: String?
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let client = try RemoteIdentifier(client)
            let document = try document.map { try RemoteIdentifier($0) }
            let place = document.map { "\($0)" } ?? "the application"
            if !yes { try await confirm("Remove client \(client) from \(place)?") }
            let session = try await Session(options, interruption: interruption)
            let removal = try await session.value(of: session.manager.removeClient(client, from: document))
            for warning in removal.warnings { session.report.warning(warning) }
            session.report.result(
                Result(
                    application: session.manager.application.rawValue,
                    client: client.rawValue,
                    document: document?.rawValue
                ),
                lines: ["Removed client \(client) from \(place)."]
            )
        }
    }

    private func confirm(_ question: String) async throws {
        guard Terminal.isInteractive else {
            throw UsageError("\(question) There is no terminal to answer on: confirm with --yes.")
        }
        guard try await Terminal.confirm(question) else {
            throw UsageError("The answer was no, so nothing was removed.")
        }
    }
}
