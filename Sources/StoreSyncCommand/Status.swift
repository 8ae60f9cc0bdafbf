import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync

/// `storesync status`: what is on the remote.
struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists the application's clients, documents and stores. Registers nobody."
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let session = try await Session(options, interruption: interruption)
            let status = try await session.value(of: session.manager.status())
            // Asked last: what can't be reached has said so by now.
            let remote = Remote(session.backend.identity, try await session.backend.knownCapabilities())
            session.report.result(Result(status, remote), lines: lines(status, remote))
        }
    }

    /// The storage, and what can be relied on there.
    private struct Remote: Encodable {
        let identity: String
        /// `nil` where it would have to be tried out.
        let capabilities: [String]?

        init(_ identity: String, _ capabilities: RemoteCapabilities?) {
            self.identity = identity
            self.capabilities = capabilities?.names
        }

        var line: String {
            guard let capabilities else { return "remote \(identity)  is tried out by the first push" }
            return "remote \(identity)  "
                + (capabilities.isEmpty ? "guarantees nothing" : capabilities.joined(separator: ", "))
        }
    }

    private func lines(_ status: ApplicationStatus, _ remote: Remote) -> [String] {
        var lines = [
            "\(status.application), \(status.isEncrypted ? "encrypted" : "not encrypted")",
            status.client.map { "this device is client \($0)" } ?? "this device isn't registered",
            remote.line,
        ]
        for client in status.clients { lines.append("client \(client.client)  \(client.description)") }
        for document in status.documents {
            lines.append("document \(document.document)  \(document.description)")
            for store in document.stores {
                lines.append(
                    "  generation \(store.generation) of client \(store.client)  \(ByteCount(store.bytes))  "
                        + store.modified.formatted(.iso8601)
                )
            }
        }
        return lines
    }

    private struct Result: Encodable {
        struct Client: Encodable {
            let client: String
            let description: String
            let documents: [String]
        }
        struct Store: Encodable {
            let client: String
            let generation: Int
            let bytes: Int64
            let modified: Date
        }
        struct Document: Encodable {
            let document: String
            let description: String
            let stores: [Store]
        }

        private enum CodingKeys: CodingKey {
            case application, client, encrypted, remote, clients, documents
        }

        let application: String
        let client: String?
        let encrypted: Bool
        let remote: Remote
        let clients: [Client]
        let documents: [Document]

        init(_ status: ApplicationStatus, _ remote: Remote) {
            self.remote = remote
            application = status.application.rawValue
            client = status.client
            encrypted = status.isEncrypted
            clients = status.clients.map {
                Client(
                    client: $0.client.rawValue,
                    description: $0.description,
                    documents: $0.documents.map(\.rawValue)
                )
            }
            documents = status.documents.map { document in
                Document(
                    document: document.document.rawValue,
                    description: document.description,
                    stores: document.stores.map {
                        Store(
                            client: $0.client.rawValue,
                            generation: $0.generation,
                            bytes: $0.bytes,
                            modified: $0.modified
                        )
                    }
                )
            }
        }

        // Not the synthesized one, which would leave out the client of a device that isn't registered.
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(application, forKey: .application)
            try container.encode(client, forKey: .client)
            try container.encode(encrypted, forKey: .encrypted)
            try container.encode(remote, forKey: .remote)
            try container.encode(clients, forKey: .clients)
            try container.encode(documents, forKey: .documents)
        }
    }
}
