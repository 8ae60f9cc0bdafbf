import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// `storesync list documents`.
struct ListDocuments: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "documents",
        abstract: "Lists the documents, with the device that created each and the last synchronization of each client."
    )

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        struct Client: Encodable {
            let client: String
            let lastSync: Date?
        }
        struct Document: Encodable {
            let document: String
            let description: String
            let userInfo: [String: JSONValue]
            let originalDevice: String?
            let originalDeviceDescription: String
            let lastSync: Date?
            let clients: [Client]
        }

        let application: String
        let documents: [Document]
        let unreadable: [FileProblem]

        init(_ list: DocumentList) {
            application = list.application.rawValue
            documents = list.documents.map { document in
                Document(
                    document: document.document.rawValue,
                    description: document.description,
                    userInfo: document.userInfo.mapValues(JSONValue.init),
                    originalDevice: document.originalDevice,
                    originalDeviceDescription: document.originalDeviceDescription,
                    lastSync: document.lastSyncs.values.max(),
                    clients: document.clients.map {
                        Client(client: $0.rawValue, lastSync: document.lastSyncs[$0])
                    }
                )
            }
            unreadable = list.unreadable.map(FileProblem.init)
        }
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let session = try await Session(options, interruption: interruption)
            let list = try await session.value(of: session.manager.listDocuments())
            try session.report.result(Result(list), lines: list.documents.flatMap(lines))
            session.report.warnings(about: list.unreadable)
        }
    }

    private func lines(_ document: DocumentList.Document) -> [String] {
        let creator = document.originalDevice.map { "  created by \($0)  \(document.originalDeviceDescription)" }
        return ["document \(document.document)  \(document.description)"] + [creator].compactMap(\.self)
            + document.clients.map { "  client \($0)  \(document.lastSyncs[$0].lastSync)" }
    }
}
