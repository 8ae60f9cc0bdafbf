public import Foundation
public import RemoteStorage
import SyncCryptography

/// The remote steps by which an application is given up for a new one in its place: of ``ApplicationRegistrationOperation``,
/// where a ``PasscodeSetup`` starts it.
public protocol ApplicationReplacementHooks: SyncHooks {
    /// Gives the application another name, at which nothing is.
    ///
    /// - Returns: Whether it was there. At most one caller in the world is told yes.
    func moveApplicationAside(_ hierarchy: ApplicationHierarchy, to aside: RemotePath) async throws -> Bool

    /// The names beside the applications', of directories.
    func listNamesAside() async throws -> [String]

    /// Removes an application that was moved aside.
    func removeApplicationAside(at aside: RemotePath) async throws

    /// Puts another registration in the place of the one that was read, if that is still `former`.
    ///
    /// `former` is `nil` if there was none.
    ///
    /// - Returns: Whether this one stands there. At most one caller in the world is told yes.
    func replaceRegistration(
        _ former: [UInt8]?,
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool

    /// Puts another salt file in the place of the one that is there.
    func replaceSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws

    /// Saves the proof that the application of this epoch is the former one's successor.
    func saveSuccessor(_ bytes: [UInt8], of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws

    /// Reads the proof that the application of this epoch is the former one's successor; `nil` if there is none.
    func fetchSuccessor(of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Removes the proof that the application of this epoch is the former one's successor.
    func removeSuccessor(of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws

    /// Whether files of another epoch's clients are left in the application's directory.
    func hasFormerClients(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws -> Bool

    /// Removes what is left of other epochs in the application's directory; others may be working in it.
    func removeFormerFiles(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws
}

extension ApplicationReplacementHooks {
    /// Moves the directory; one that isn't there any more is a refusal.
    public func moveApplicationAside(
        _ hierarchy: ApplicationHierarchy,
        to aside: RemotePath
    ) async throws -> Bool {
        do {
            try await backend.move(hierarchy.root, to: aside)
            return true
        } catch let error as RemoteError where error.code == .notFound {
            return false
        }
    }

    /// Lists the root.
    public func listNamesAside() async throws -> [String] {
        (try await backend.list(.root) ?? []).filter { $0.kind == .directory }.map(\.name)
    }

    /// Removes the directory with all that is in it.
    public func removeApplicationAside(at aside: RemotePath) async throws {
        try await backend.remove(aside)
    }

    /// Writes the file on the condition that it's the one that was read; one that was refused is read back, since it may be
    /// ours.
    public func replaceRegistration(
        _ former: [UInt8]?,
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        let path = hierarchy.registration
        let tag = try await backend.status(of: path)?.tag
        guard try await backend.smallFile(at: path, isReplaced: true) == former else { return false }
        do {
            let condition: WriteCondition = if former != nil, let tag { .ifMatches(tag) } else { .ifAbsent }
            try await backend.write(bytes, to: path, when: condition)
            return true
        } catch let error as RemoteError where [.preconditionFailed, .alreadyExists].contains(error.code) {
            return try await backend.smallFile(at: path, isReplaced: true) == bytes
        }
    }

    /// Writes the file.
    public func replaceSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws {
        try await backend.write(bytes, to: hierarchy.salt, when: .always)
    }

    /// Writes the file where none is.
    public func saveSuccessor(_ bytes: [UInt8], of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws {
        _ = try await backend.writeIfAbsent(bytes, to: hierarchy.successor(epoch))
    }

    /// Reads the file.
    public func fetchSuccessor(of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.successor(epoch))
    }

    /// Removes the file.
    public func removeSuccessor(of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws {
        try await backend.remove(hierarchy.successor(epoch))
    }

    /// Looks at the beginning of every client's file.
    public func hasFormerClients(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws -> Bool {
        try await !FormerFiles(backend: backend, hierarchy: hierarchy, epoch: epoch).clients().isEmpty
    }

    /// Removes documents, notes and clients, clients last: as long as one is there, something may be.
    public func removeFormerFiles(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws {
        try await FormerFiles(backend: backend, hierarchy: hierarchy, epoch: epoch).remove()
    }
}

extension DefaultHooks: ApplicationReplacementHooks {}

extension RemoteBackend {
    /// The backend's own hooks for replacing applications where it has them, else the ones every backend gets.
    nonisolated var applicationReplacementHooks: any ApplicationReplacementHooks {
        self as? any ApplicationReplacementHooks ?? DefaultHooks(backend: self)
    }
}
