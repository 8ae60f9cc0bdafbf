import ArgumentParser
import Operations
import RemoteStorage
import StoreSync

/// `storesync remove application`.
struct RemoveApplication: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "application",
        abstract: "Removes all data of an application from the remote.",
        discussion: """
            Removes all documents with their uploads, all clients and the keys, for all devices. This device forgets the \
            application, and what merging overwrote. Local stores stay.
            """
    )

    @OptionGroup var confirmation: ConfirmationOptions
    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let application = try options.application()
            try await confirmation.confirm(
                "Remove all data of \(application) from the remote, for all devices?",
                byTyping: application.rawValue
            )
            let session = try await Session(options, interruption: interruption)
            let removal = try await session.value(of: session.manager.removeApplication())
            for warning in removal.warnings { session.report.warning(warning) }
            try session.report.result(
                RemovalResult(command: "remove application", application: application.rawValue),
                lines: ["Removed \(application) with \(removal.documents.count.of("document"))."]
            )
        }
    }
}
