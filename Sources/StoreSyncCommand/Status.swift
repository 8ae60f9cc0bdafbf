import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography

/// `storesync status`: shows what is on the remote.
struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Lists the application's clients, documents and stores. Registers no client."
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let session = try await Session(options, interruption: interruption)
            let status = try await session.value(of: session.manager.status())
            // Asked last: a remote that can't be reached has failed by now.
            let remote = Remote(session.backend.identity, try await session.backend.knownCapabilities())
            try session.report.result(Result(status, remote), lines: lines(status, remote))
            session.report.warnings(about: status.unreadable)
        }
    }

    /// The storage, and what it guarantees.
    private struct Remote: Encodable {
        let identity: String
        /// `nil` if the storage would have to be tested first.
        let capabilities: [String]?

        init(_ identity: String, _ capabilities: RemoteCapabilities?) {
            self.identity = identity
            self.capabilities = capabilities?.names
        }

        var line: String {
            guard let capabilities else { return "remote \(identity)  is tested by the first push" }
            return "remote \(identity)  "
                + (capabilities.isEmpty ? "guarantees nothing" : capabilities.joined(separator: ", "))
        }
    }

    private func lines(_ status: ApplicationStatus, _ remote: Remote) -> [String] {
        var lines = ["\(status.application), \(status.isEncrypted ? "encrypted" : "not encrypted")"]
        if let encryption = status.encryption {
            lines += [
                "  sealed with \(encryption.suite), epoch \(encryption.epoch)",
                "  password \(encryption.passwordVersion), hashed by Argon2id in \(encryption.passwordParameters)",
                encryption.hasKeys
                    ? "  this device has the keys" : "  this device doesn't have the keys: it asks for the password",
            ]
        }
        lines += [self.client(status), remote.line]
        for client in status.clients {
            lines.append("client \(client.client)  \(client.description)  \(client.lastSync.lastSync)")
        }
        for document in status.documents {
            lines.append("document \(document.document)  \(document.description)")
            for store in document.stores {
                lines.append(
                    "  generation \(store.generation) of client \(store.client)  \(store.bytes.byteCount)  "
                        + store.modified.formatted(.iso8601)
                )
            }
            lines += document.synchronizing.map(\.line)
        }
        return lines
    }

    private func client(_ status: ApplicationStatus) -> String {
        guard let own = status.client else { return "this device isn't registered" }
        let isListed = status.clients.contains { $0.client.rawValue == own }
        // Its file may be unreadable.
        guard isListed || status.unreadable.contains(where: { $0.path.contains(own) }) else {
            return "this device isn't registered: client \(own) was removed, or never registered"
        }
        return "this device is client \(own)"
    }

    private struct Result: Encodable {
        struct Client: Encodable {
            let client: String
            let description: String
            let documents: [String]
            let lastSync: Date?
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
            let lastSync: Date?
            /// Not if its devices don't merge records.
            let synchronizing: [SynchronizingClient]?
        }
        struct SynchronizingClient: Encodable {
            let client: String
            let sequence: UInt64
            let behind: UInt64
            let published: Date
            let logBytes: Int64
            let removed: Bool
            let silent: Bool

            init(_ client: ApplicationStatus.SynchronizingClient) {
                self.client = client.client.rawValue
                sequence = client.sequence
                behind = client.behind
                published = client.published
                logBytes = client.logBytes
                removed = client.isRemoved
                silent = client.isSilent
            }
        }

        struct Encryption: Encodable {
            let suite: String
            let passes: Int
            let memoryKibibytes: Int
            let passwordVersion: Int
            let epoch: String
            let hasKeys: Bool
        }
        private enum CodingKeys: CodingKey {
            case application, client, encrypted, encryption, remote, clients, documents, unreadable
        }

        let application: String
        let client: String?
        let encrypted: Bool
        let encryption: Encryption?
        let remote: Remote
        let clients: [Client]
        let documents: [Document]
        let unreadable: [FileProblem]

        init(_ status: ApplicationStatus, _ remote: Remote) {
            self.remote = remote
            application = status.application.rawValue
            client = status.client
            encrypted = status.isEncrypted
            encryption = status.encryption.map {
                Encryption(
                    suite: $0.suite,
                    passes: $0.passwordParameters.passes,
                    memoryKibibytes: $0.passwordParameters.memoryKibibytes,
                    passwordVersion: $0.passwordVersion,
                    epoch: $0.epoch,
                    hasKeys: $0.hasKeys
                )
            }
            unreadable = status.unreadable.map(FileProblem.init)
            clients = status.clients.map {
                Client(
                    client: $0.client.rawValue,
                    description: $0.description,
                    documents: $0.documents.map(\.rawValue),
                    lastSync: $0.lastSync
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
                    },
                    lastSync: document.lastSyncs.values.max(),
                    synchronizing: document.synchronizing.isEmpty
                        ? nil : document.synchronizing.map(SynchronizingClient.init)
                )
            }
        }

        // The synthesized method would leave out a client or an encryption that is `nil`.
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(application, forKey: .application)
            try container.encode(client, forKey: .client)
            try container.encode(encrypted, forKey: .encrypted)
            try container.encode(encryption, forKey: .encryption)
            try container.encode(remote, forKey: .remote)
            try container.encode(clients, forKey: .clients)
            try container.encode(documents, forKey: .documents)
            try container.encode(unreadable, forKey: .unreadable)
        }
    }
}

extension ApplicationStatus.SynchronizingClient {
    /// How far the client is, in a line.
    var line: String {
        let sets = Int(clamping: sequence).of("change set")
        var line = "  client \(client)  \(sets), last \(published.formatted(.iso8601))"
        if isInFuture { line += ", in the future: its clock or this device's is wrong" }
        if behind > 0 { line += "; hasn't confirmed \(behind) of other clients" }
        if logBytes > 0 { line += "  \(logBytes.byteCount)" }
        if isRemoved { line += "  (removed)" }
        if isSilent || isInFuture { line += "; if it's gone: storesync remove client \(client)" }
        return line
    }
}
