import Foundation
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// The files of other epochs in an application that has replaced a former one where directories can't be moved.
///
/// Other clients may be working in the new application. So files sealed for it stay, and so do files that might be new
/// ones that a client is still creating. A document of a former epoch keeps its name until its last file is removed.
/// Until then no client creates another document of that name.
///
/// Another device may recreate the application again meanwhile. Files sealed for that epoch appear after its
/// registration. So the registration is read after a file is inspected and before it's removed. If the registration is
/// still of this epoch, the file belongs to a former one.
struct FormerFiles: Sendable {
    let backend: any RemoteBackend
    let hierarchy: ApplicationHierarchy
    let epoch: UUID

    /// The clients that aren't of this epoch.
    ///
    /// A client without a file may be registering, so it isn't included.
    func clients() async throws -> [RemoteIdentifier] {
        let clients = try await backend.list(hierarchy.clientDevices).directoryIdentifiers
        let areFormer = try await clients.concurrentMap { client in
            try await isFormer(hierarchy.deviceInfo(client)) ?? false
        }
        return zip(clients, areFormer).filter(\.1).map(\.0)
    }

    func remove() async throws {
        for document in try await backend.list(hierarchy.documents).directoryIdentifiers {
            try await remove(hierarchy.document(document))
        }
        let clients = try await clients()
        guard try await isCurrent() else { return }
        for directory in try await items(in: hierarchy.information, .directory) {
            // A directory with one file per client: removes the files of the former clients.
            for client in clients {
                try await backend.remove(directory.appending(client, extension: "ticdsync"))
            }
        }
        for directory in [hierarchy.deletedDocuments, hierarchy.deletedClients] {
            for path in try await files(in: directory) where try await isFormer(path) == true {
                guard try await isCurrent() else { return }
                try await backend.remove(path)
            }
        }
        for path in try await files(in: hierarchy.encryption) {
            guard path != hierarchy.successor(epoch),
                path.lastComponent?.hasPrefix(ApplicationHierarchy.successorPrefix) == true
            else { continue }
            // The proof of the next epoch is written before its registration, so it may exist already and must stay.
            let proof = try await backend.smallFile(at: path).flatMap { try? SuccessorProof($0) }
            guard proof?.formerEpoch != epoch else { continue }
            try await backend.remove(path)
        }
        guard try await isCurrent() else { return }
        for client in clients { try await backend.remove(hierarchy.clientDirectory(client)) }
    }

    private func remove(_ document: DocumentHierarchy) async throws {
        guard try await isFormer(document), try await isCurrent() else { return }
        for item in try await backend.list(document.root) ?? [] {
            let path = try document.root.appending(item.name)
            // What tells that the document is a former one goes last.
            guard ![document.documentInfo, document.integrityKeys].contains(path) else { continue }
            try await backend.remove(path)
        }
        guard try await isFormer(document.documentInfo) != false, try await isCurrent() else { return }
        try await backend.remove(document.root)
    }

    /// Whether a document is of another epoch; without an info that tells, its integrity keys do.
    private func isFormer(_ document: DocumentHierarchy) async throws -> Bool {
        if let isFormer = try await isFormer(document.documentInfo) { return isFormer }
        var areFormer: Set<Bool> = []
        for path in try await files(in: document.integrityKeys) {
            if let isFormer = try await isFormer(path) { areFormer.insert(isFormer) }
        }
        return areFormer == [true]
    }

    /// Whether the application is still of this epoch.
    private func isCurrent() async throws -> Bool {
        let path = hierarchy.registration
        let bytes = try await backend.smallFile(at: path, isReplaced: true)
        let info = bytes.flatMap { try? RegistrationInfo($0, at: path) }
        return info?.epoch == epoch.uuidString
    }

    /// Whether a file isn't sealed for this epoch.
    ///
    /// `nil` if that can't be told: the file doesn't exist, hasn't fully arrived, or was sealed by a newer program.
    private func isFormer(_ path: RemotePath) async throws -> Bool? {
        guard let content = try await backend.read(path, range: 0..<Int64(EpochKey.sealedHeaderBytes)) else {
            return nil
        }
        var start: [UInt8] = []
        for try await chunk in content where start.count < EpochKey.sealedHeaderBytes { start += chunk }
        guard let sealed = EpochKey.epoch(ofSealed: start) else { return EpochKey.mayBeSealed(start) ? nil : true }
        return sealed != epoch
    }

    private func files(in directory: RemotePath) async throws -> [RemotePath] {
        try await items(in: directory, .file)
    }

    private func items(in directory: RemotePath, _ kind: RemoteItem.Kind) async throws -> [RemotePath] {
        try await (backend.list(directory) ?? []).filter { $0.kind == kind }
            .compactMap { try? directory.appending($0.name) }
    }
}
