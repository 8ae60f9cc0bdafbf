import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// `storesync list clients`.
struct ListClients: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clients",
        abstract: "Lists the clients of the application, or of a document, with their last synchronization."
    )

    @Option(help: ArgumentHelp("List this document's clients.", valueName: "id"))
    var document: String?

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        struct Client: Encodable {
            let client: String
            let description: String
            let userInfo: [String: JSONValue]
            let documents: [String]
            let lastSync: Date?
        }

        let application: String
        let document: String?
        let clients: [Client]
        let unreadable: [FileProblem]

        init(_ list: ClientList) {
            application = list.application.rawValue
            document = list.document?.rawValue
            clients = list.clients.map {
                Client(
                    client: $0.client.rawValue,
                    description: $0.description,
                    userInfo: $0.userInfo.mapValues(JSONValue.init),
                    documents: $0.documents.map(\.rawValue),
                    lastSync: $0.lastSync
                )
            }
            unreadable = list.unreadable.map(FileProblem.init)
        }
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let document = try document.map { try RemoteIdentifier($0) }
            let session = try await Session(options, interruption: interruption)
            let list = try await session.value(of: session.manager.listClients(of: document))
            try session.report.result(
                Result(list),
                lines: list.clients.map { "client \($0.client)  \($0.description)  \($0.lastSync.lastSync)" }
            )
            session.report.warnings(about: list.unreadable)
        }
    }
}

extension Date? {
    /// The time of a last synchronization, for people.
    var lastSync: String { map { "synchronized \($0.formatted(.iso8601))" } ?? "no synchronization recorded" }
}
