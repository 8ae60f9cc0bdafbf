public import Foundation
public import RemoteStorage

/// The remote steps with which ``ApplicationRegistrationOperation`` replaces an application with a new one.
///
/// A ``PasscodeSetup`` starts the replacement.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol ApplicationReplacementHooks: SyncHooks {
    /// Renames the application, to a name that is unused.
    ///
    /// - Returns: Whether it existed. Of several callers with different names, on any devices, at most one gets `true`.
    func moveApplicationAside(_ hierarchy: ApplicationHierarchy, to aside: RemotePath) async throws -> Bool

    /// The names of all directories next to the applications.
    func listNamesAside() async throws -> [String]

    /// Removes an application that was moved aside.
    func removeApplicationAside(at aside: RemotePath) async throws

    /// Moves all files of one application to another, where they replace those of the same names.
    ///
    /// They were written to the application's path when the application had been moved aside already.
    func moveLateFiles(from late: ApplicationHierarchy, to hierarchy: ApplicationHierarchy) async throws

    /// Replaces the application's registration, if it's still `former`.
    ///
    /// `former` is `nil` if there was none.
    ///
    /// - Returns: Whether the remote now holds this registration. At most one caller, on any device, gets `true`.
    func replaceRegistration(
        _ former: [UInt8]?,
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool

    /// Replaces the salt file.
    func replaceSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws

    /// Saves the proof that the application of this epoch is the former one's successor.
    func saveSuccessor(_ bytes: [UInt8], of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws

    /// Reads the proof that the application of this epoch is the former one's successor; `nil` if there is none.
    func fetchSuccessor(of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Removes the proof that the application of this epoch is the former one's successor.
    func removeSuccessor(of epoch: UUID, _ hierarchy: ApplicationHierarchy) async throws

    /// Whether files of another epoch's clients are left in the application's directory.
    func hasFormerClients(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws -> Bool

    /// Removes the files of other epochs from the application's directory, in which other clients may be working.
    func removeFormerFiles(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws
}

extension ApplicationReplacementHooks {
    /// Moves the directory, or returns `false` if it doesn't exist any more.
    public func moveApplicationAside(
        _ hierarchy: ApplicationHierarchy,
        to aside: RemotePath
    ) async throws -> Bool {
        try await backend.moveAside(hierarchy.root, to: aside)
    }

    /// Lists the root.
    public func listNamesAside() async throws -> [String] {
        (try await backend.list(.root) ?? []).filter { $0.kind == .directory }.map(\.name)
    }

    /// Removes the directory with all that is in it.
    public func removeApplicationAside(at aside: RemotePath) async throws {
        try await backend.remove(aside)
    }

    /// Moves what has a free name, copies files over those of the same names, and removes what is left.
    public func moveLateFiles(from late: ApplicationHierarchy, to hierarchy: ApplicationHierarchy) async throws {
        try await backend.moveContent(of: late.root, to: hierarchy.root)
        try await backend.remove(late.root)
    }

    /// Writes the file on the condition that it's still the file that was read.
    ///
    /// If the write is refused, the file is read back: an earlier attempt of this client may have written it.
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

    /// Writes the file unless it exists.
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

    /// Reads the beginning of every client's file.
    public func hasFormerClients(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws -> Bool {
        try await !FormerFiles(backend: backend, hierarchy: hierarchy, epoch: epoch).clients().isEmpty
    }

    /// Removes documents, notes and clients.
    ///
    /// Clients come last: as long as a client exists, other files may be left.
    public func removeFormerFiles(_ hierarchy: ApplicationHierarchy, epoch: UUID) async throws {
        try await FormerFiles(backend: backend, hierarchy: hierarchy, epoch: epoch).remove()
    }
}
