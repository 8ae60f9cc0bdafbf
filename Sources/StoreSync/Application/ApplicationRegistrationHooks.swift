public import RemoteStorage
import ThreadSupport

/// The remote steps of ``ApplicationRegistrationOperation``.
///
/// Override a hook to do a step differently on your storage. Each has a default for every `RemoteBackend`, which
/// ``SyncHooks`` explains, together with what a hook throws.
public protocol ApplicationRegistrationHooks: ClientNoteHooks {
    /// Whether the application's directory is on the remote.
    func applicationDirectoryExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Creates all directories of the application that don't exist yet.
    func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws

    /// Saves the text that tells people what the directory is for, unless the file exists.
    func saveReadMe(_ text: String, _ hierarchy: ApplicationHierarchy) async throws

    /// Whether there is a salt file, which marks an encrypted application.
    func saltFileExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Reads the salt file; `nil` if there is none.
    func fetchSalt(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Saves the salt file, unless it exists.
    func saveSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws

    /// Reads the file that passwords are tested with; `nil` if there is none.
    func fetchPasswordTest(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]?

    /// Saves the file that passwords are tested with, unless it exists.
    ///
    /// - Returns: Whether this file was saved. At most one caller, on any device, gets `true`.
    func createPasswordTest(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Replaces the file that passwords are tested with, if it's still `former`.
    ///
    /// - Returns: Whether it was replaced. If not, another device has replaced it, or the storage refused.
    func replacePasswordTest(
        _ former: [UInt8],
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool

    /// Creates a client's claim to change the password, unless the file exists.
    ///
    /// - Returns: The claim that exists now: this one, at most for one client, or another client's; `nil` if it has just been
    ///   removed.
    func createPasswordClaim(_ bytes: [UInt8], at path: RemotePath) async throws -> [UInt8]?

    /// Removes a client's claim to change the password.
    func removePasswordClaim(at path: RemotePath) async throws

    /// Creates the client's directory.
    func createClientDeviceDirectory(_ client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws

    /// Removes the client's directory, with what is known of the client.
    func removeClientDeviceDirectory(_ client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws

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
    /// - Returns: Whether this file was saved. At most one caller, on any device, gets `true`.
    func createRegistration(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Moves an application from its staging directory to its regular path, unless something exists there.
    ///
    /// - Returns: Whether it was moved. At most one caller, on any device, gets `true`.
    func publishApplication(stagedAt staged: RemotePath, _ hierarchy: ApplicationHierarchy) async throws -> Bool

    /// Removes a staging directory that isn't needed any more.
    func removeStagedApplication(at staged: RemotePath) async throws

    /// The missing paths among an application's required files and directories and the optional
    /// ``ApplicationHierarchy/keychains``.
    ///
    /// - Returns: The paths; `nil` if the application's directory itself is missing.
    func missingParts(_ hierarchy: ApplicationHierarchy) async throws -> Set<RemotePath>?

    /// The clients that have a directory in the application.
    func listClients(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteIdentifier]

    /// The names of all applications, to find a name that some storage treats as the same.
    func listApplications() async throws -> [RemoteIdentifier]
}

extension ApplicationRegistrationHooks {
    /// Asks for the directory's status.
    public func applicationDirectoryExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try await backend.status(of: hierarchy.root)?.kind == .directory
    }

    /// Creates the innermost directories concurrently.
    public func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws {
        try await hierarchy.directories.innermost.concurrentMap { [backend] in
            try await backend.createDirectory(at: $0)
        }
    }

    /// Writes the file unless it exists.
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

    /// Writes the file unless it exists.
    public func saveSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws {
        _ = try await backend.writeIfAbsent(bytes, to: hierarchy.salt)
    }

    /// Reads the file.
    public func fetchPasswordTest(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try await backend.smallFile(at: hierarchy.passwordTest)
    }

    /// Creates the file, or checks the existing one.
    ///
    /// An existing file is read back: an earlier attempt of this client may have written it.
    public func createPasswordTest(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: hierarchy.passwordTest) { return true }
        return try await fetchPasswordTest(hierarchy) == bytes
    }

    /// Replaces the file if it's still `former`, with a conditional write if the backend can, and reads it back.
    ///
    /// A backend that can must report the file's tag. If it doesn't, the file isn't replaced.
    public func replacePasswordTest(
        _ former: [UInt8],
        with bytes: [UInt8],
        _ hierarchy: ApplicationHierarchy
    ) async throws -> Bool {
        let path = hierarchy.passwordTest
        let tag = try await backend.status(of: path)?.tag
        guard try await fetchPasswordTest(hierarchy) == former else { return false }
        let isConditional = try await backend.capabilities().contains(.conditionalReplace)
        guard tag != nil || !isConditional else { return false }
        var failure: RemoteError?
        do {
            let condition: WriteCondition = if isConditional, let tag { .ifMatches(tag) } else { .always }
            try await backend.write(bytes, to: path, when: condition)
            failure = RemoteError(
                .unavailable,
                """
                \(backend.identity) reported that the new password was saved, but still has the former one. Try again. A \
                network's login page may be in the way: sign in first.
                """,
                path: path
            )
        } catch let error as RemoteError where error.code == .preconditionFailed {
            // The conflict may come from this client's own request, sent twice.
        } catch let error as RemoteError where error.code == .unavailable {
            // Only the answer may be lost.
            failure = error
        }
        let present = try await fetchSavedPasswordTest(hierarchy)
        if present == former, let failure { throw failure }
        return present == bytes
    }

    /// Reads the file after a write, of which nothing else says whether the storage carried it out.
    private func fetchSavedPasswordTest(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        do {
            return try await fetchPasswordTest(hierarchy)
        } catch let error as RemoteError {
            throw RemoteError(
                .unavailable,
                """
                \(backend.identity) stopped answering while the new password was saved. The new password may be valid \
                already. Run the command again with the same new password.
                """,
                path: hierarchy.passwordTest,
                cause: error
            )
        }
    }

    /// Creates the file, or reads the existing one.
    public func createPasswordClaim(_ bytes: [UInt8], at path: RemotePath) async throws -> [UInt8]? {
        if try await backend.writeIfAbsent(bytes, to: path) { return bytes }
        return try await backend.smallFile(at: path)
    }

    /// Removes the file.
    public func removePasswordClaim(at path: RemotePath) async throws {
        try await backend.remove(path)
    }

    /// Creates the directory.
    public func createClientDeviceDirectory(
        _ client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws {
        try await backend.createDirectory(at: hierarchy.clientDirectory(client))
    }

    /// Removes the directory with all that is in it.
    public func removeClientDeviceDirectory(
        _ client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws {
        try await backend.remove(hierarchy.clientDirectory(client))
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

    /// Creates the file, or checks the existing one.
    ///
    /// An existing file is read back: an earlier attempt of this client may have written it.
    public func createRegistration(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        if try await backend.writeIfAbsent(bytes, to: hierarchy.registration) { return true }
        return try await fetchRegistration(hierarchy) == bytes
    }

    /// Moves the directory, or returns `false` if the destination exists.
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

    /// Lists the two directories that contain others.
    public func missingParts(_ hierarchy: ApplicationHierarchy) async throws -> Set<RemotePath>? {
        async let root = backend.paths(in: hierarchy.root)
        async let information = backend.paths(in: hierarchy.information)
        let (inRoot, inInformation) = try await (root, information)
        guard let inRoot else { return nil }
        let parts = hierarchy.directories.dropFirst() + [hierarchy.readMe, hierarchy.keychains]
        return Set(parts).subtracting(inRoot + (inInformation ?? []))
    }

    /// Lists the clients' directories.
    public func listClients(_ hierarchy: ApplicationHierarchy) async throws -> [RemoteIdentifier] {
        try await backend.list(hierarchy.clientDevices).directoryIdentifiers
    }

    /// Lists the root.
    public func listApplications() async throws -> [RemoteIdentifier] {
        try await backend.list(.root).directoryIdentifiers
    }
}
