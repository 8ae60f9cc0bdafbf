import ArgumentParser

/// `storesync list`: shows the documents or the clients.
struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Lists the application's documents, or clients. Registers no client.",
        subcommands: [ListDocuments.self, ListClients.self]
    )

    func run() async throws {
        throw UsageError("Say what to list: storesync list documents, or storesync list clients.")
    }
}
