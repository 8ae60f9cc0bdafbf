public import RemoteStorage

/// The remote steps of ``ApplicationRegistrationOperation``.
///
/// Each is one of TICoreDataSync's overridden methods; what was told by a callback there is returned here.
public protocol ApplicationRegistrationHooks: SyncHooks {
    /// Whether the application's directory is on the remote.
    func applicationDirectoryExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Makes all directories of the application; those that are there stay as they are.
    func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws

    /// Saves the text that tells people what the directory is for. One that is there stays.
    func saveReadMe(_ text: String, _ hierarchy: ApplicationHierarchy) async throws

    /// Whether there is a salt file, which marks an encrypted application.
    func saltFileExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Reads the salt file; `nil` if there is none.
    func fetchSalt(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Saves the salt file. One that is there stays.
    func saveSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws

    /// Reads the file that passwords are tried on; `nil` if there is none.
    func fetchPasswordTest(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Saves the file that passwords are tried on, unless there is one.
    ///
    /// - Returns: Whether this one was saved. At most one caller in the world is told yes.
    func createPasswordTest(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Puts another file in the place of the one that passwords are tried on, if that is still `former`.
    ///
    /// - Returns: Whether it was replaced.
    func replacePasswordTest(
        _ former: [UInt8],
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool

    /// Whether the client has a directory in the application.
    func clientDeviceDirectoryExists(
        _ client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool

    /// Makes the client's directory.
    func createClientDeviceDirectory(_ client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws

    /// Saves what is known of the client.
    func saveDeviceInfo(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws

    /// Reads what is known of the client; `nil` if nothing was saved.
    func fetchDeviceInfo(of client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Reads the application's registration; `nil` if there is none.
    func fetchRegistration(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Saves the application's registration, unless there is one.
    ///
    /// - Returns: Whether this one was saved. At most one caller in the world is told yes.
    func createRegistration(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Gives an application that was put together aside its place, unless something is there.
    ///
    /// - Returns: Whether it was moved. At most one caller in the world is told yes.
    func publishApplication(stagedAt staged: RemotePath, _ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Removes what was put together aside and isn't needed.
    func removeStagedApplication(at staged: RemotePath) async throws

    /// Which of the files and directories that an application always has are missing; and whether
    /// ``ApplicationHierarchy/keychains`` is, which it hasn't always.
    ///
    /// - Returns: `nil` if the application's directory itself is.
    func missingParts(_ hierarchy: ApplicationHierarchy) async throws -> Set<RemotePath>?

    /// The clients that have a directory in the application.
    func listClients(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteIdentifier]

    /// Reads the note that the client was removed from the application; `nil` if there is none.
    func fetchDeletedClientNote(_ client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Saves the note that the client was removed from the application.
    func saveDeletedClientNote(
        _ client: RemoteIdentifier,
        content: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws

    /// The clients that there are such notes of.
    func listDeletedClients(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteIdentifier]

    /// The names beside the application's, to find one that some storage takes for the same.
    func listApplications() async throws -> [RemoteIdentifier]
}

extension ApplicationRegistrationHooks {
    /// Asks for the directory's status.
    public func applicationDirectoryExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try await backend.status(of: hierarchy.root) != nil
    }

    /// Makes the innermost directories, together.
    public func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws {
        let backend = backend
        try await together(hierarchy.directories.innermost) { try await backend.createDirectory(at: $0) }
    }

    /// Writes the file where none is.
    public func saveReadMe(_ text: String, _ hierarchy: ApplicationHierarchy) async throws {
        _ = try await backend.writeIfAbsent(Array(text.utf8), to: hierarchy.readMe)
    }

    /// Asks for the file's status.
    public func saltFileExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try await backend.status(of: hierarchy.salt) != nil
    }

    /// Reads the file.
    public func fetchSalt(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.salt)
    }

    /// Writes the file where none is.
    public func saveSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws {
        _ = try await backend.writeIfAbsent(bytes, to: hierarchy.salt)
    }

    /// Reads the file.
    public func fetchPasswordTest(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.passwordTest)
    }

    /// Writes the file where none is; one that is there is read back, since it may be ours.
    public func createPasswordTest(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: hierarchy.passwordTest) { return true }
        return try await fetchPasswordTest(hierarchy) == bytes
    }

    /// Writes the file on the condition that it is the one that was read, where the backend can; then reads it back.
    public func replacePasswordTest(
        _ former: [UInt8],
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        let path = hierarchy.passwordTest
        let tag = try await backend.status(of: path)?.tag
        guard try await fetchPasswordTest(hierarchy) == former else { return false }
        let isConditional = try await backend.capabilities().contains(.conditionalReplace)
        do {
            let condition: WriteCondition = if isConditional, let tag { .ifMatches(tag) } else { .always }
            try await backend.write(bytes, to: path, when: condition)
        } catch let error as RemoteError where error.code == .preconditionFailed {
            // It may be our own write, sent twice.
        }
        return try await fetchPasswordTest(hierarchy) == bytes
    }

    /// Asks for the directory's status.
    public func clientDeviceDirectoryExists(
        _ client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        try await backend.status(of: hierarchy.clientDirectory(client)) != nil
    }

    /// Makes the directory.
    public func createClientDeviceDirectory(
        _ client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws {
        try await backend.createDirectory(at: hierarchy.clientDirectory(client))
    }

    /// Writes the file.
    public func saveDeviceInfo(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws {
        try await backend.write(bytes, to: hierarchy.deviceInfo(client), when: .always)
    }

    /// Reads the file.
    public func fetchDeviceInfo(
        of client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.deviceInfo(client), isReplaced: true)
    }

    /// Reads the file.
    public func fetchRegistration(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.registration)
    }

    /// Writes the file where none is; one that is there is read back, since it may be ours.
    public func createRegistration(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: hierarchy.registration) { return true }
        return try await fetchRegistration(hierarchy) == bytes
    }

    /// Moves the directory; a place that is taken is a refusal.
    public func publishApplication(
        stagedAt staged: RemotePath,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        do {
            try await backend.move(staged, to: hierarchy.root)
            return true
        } catch let error as RemoteError where error.code == .alreadyExists {
            return false
        }
    }

    /// Removes the directory with all that is in it.
    public func removeStagedApplication(at staged: RemotePath) async throws {
        try await backend.remove(staged)
    }

    /// Lists the two directories that have others in them.
    public func missingParts(_ hierarchy: ApplicationHierarchy) async throws -> Set<RemotePath>? {
        async let root = backend.list(hierarchy.root)
        async let information = backend.list(hierarchy.information)
        let (inRoot, inInformation) = try await (root, information)
        guard let inRoot else { return nil }
        let present =
            Set(inRoot.compactMap { try? hierarchy.root.appending($0.name) })
            .union((inInformation ?? []).compactMap { try? hierarchy.information.appending($0.name) })
        let parts = hierarchy.directories.dropFirst() + [hierarchy.readMe, hierarchy.keychains]
        return Set(parts).subtracting(present)
    }

    /// Lists the clients' directories.
    public func listClients(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(hierarchy.clientDevices).directoryIdentifiers
    }

    /// Reads the note.
    public func fetchDeletedClientNote(
        _ client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws -> [UInt8]? {
        try await backend.note(at: hierarchy.deletedClient(client))
    }

    /// Writes the note.
    public func saveDeletedClientNote(
        _ client: RemoteIdentifier,
        content: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws {
        try await backend.write(content, to: hierarchy.deletedClient(client), when: .always)
    }

    /// Lists the directory.
    public func listDeletedClients(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(hierarchy.deletedClients).noteIdentifiers
    }

    /// Lists the root.
    public func listApplications() async throws -> [RemoteIdentifier] {
        try await backend.list(.root).directoryIdentifiers
    }
}

extension RemoteBackend {
    /// Writes a file unless one is there.
    ///
    /// Returns whether it was written.
    func writeIfAbsent(_ bytes: [UInt8], to path: RemotePath) async throws -> Bool {
        do {
            // Where nobody else writes, that needn't be found out.
            try await write(bytes, to: path, when: ApplicationHierarchy.isStaged(path) ? .always : .ifAbsent)
            return true
        } catch let error as RemoteError where error.code == .alreadyExists {
            return false
        }
    }

    /// Reads a file that is small if it's ours; a large one can't be and is refused before it fills the memory.
    ///
    /// Where `isReplaced`, it may be replaced by one of another length, of which a server might mix two. Key files are always
    /// as long. Registrations are replaced where directories can't be moved only, and there our backends read consistently.
    func smallFile(at path: RemotePath, isReplaced: Bool = false) async throws -> [UInt8]? {
        let limit = 4 << 20
        do {
            return isReplaced ? try await bytes(at: path, upTo: limit) : try await read(path)?.bytes(upTo: limit)
        } catch let error as RemoteError where error.code == .wrongLength {
            throw StoreSyncError.corrupt(path, "it is far too large")
        }
    }

    /// Reads a note on something that was removed.
    ///
    /// A directory, or a file that is far too large, reads as an empty note: no seal opens that, so it counts as unauthentic.
    func note(at path: RemotePath) async throws -> [UInt8]? {
        do {
            return try await smallFile(at: path)
        } catch let error as StoreSyncError where error.code == .corrupt {
            return []
        } catch let error as RemoteError where error.code == .wrongKind {
            return []
        }
    }
}

extension [RemotePath] {
    /// Those that none of the others is inside of: making them makes all.
    var innermost: [RemotePath] {
        filter { path in !contains { $0 != path && $0.isEqualToOrInside(path) } }
    }
}

extension [RemoteItem]? {
    /// The identifiers among the names of directories.
    ///
    /// What synced folders drop there isn't one.
    var directoryIdentifiers: [RemoteIdentifier] {
        (self ?? []).filter { $0.kind == .directory }.compactMap { try? RemoteIdentifier($0.name) }
    }

    /// The identifiers that notes are named by.
    var noteIdentifiers: [RemoteIdentifier] {
        (self ?? []).filter { $0.kind == .file }
            .compactMap { RemoteIdentifier(ofFileNamed: $0.name, extension: "plist") }
    }
}
