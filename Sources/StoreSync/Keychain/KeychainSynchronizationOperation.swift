import Foundation
import Keychain
public import Operations
public import RemoteStorage
import SyncCryptography
import ThreadSupport

/// The outcome for an application's keychain: the result of ``KeychainSynchronizationOperation``.
public struct KeychainSynchronization: Sendable, Hashable {
    /// Whether synchronizable items travel: only in an encrypted application.
    public let isEncrypted: Bool
    /// Whether this client's file was written.
    ///
    /// It isn't written if it's up to date, or if no device has ever had a synchronizable item.
    public let hasPublished: Bool
    /// Problems that don't keep the keychain from being used, in full sentences.
    public let warnings: [String]
}

/// Synchronizes an application's synchronizable keychain items with those of its other clients.
///
/// The operation merges every client's file into this device's keychain, and writes this client's file if its content
/// changes. Each client writes only its own file. A file that doesn't open, or that is older than a version read
/// before, is ignored with a warning: this device's items stay as they are, and deletions are remembered until the file
/// is intact again.
///
/// The file of a client that was removed from the application is removed from the remote, when this client's file contains
/// its edits. So is a file that was sealed for a former application of the same name, because no key opens it, once it hasn't
/// changed for 30 days.
///
/// The operation may end anywhere and be run again. If no client has ever had a synchronizable item, it sends nothing.
///
/// In an application that isn't encrypted **items don't travel**, since the storage could read them: they stay in this device's
/// keychain, and a warning says so.
public actor KeychainSynchronizationOperation: Operation {
    private let application: ApplicationRegistration
    private let hooks: any KeychainSynchronizationHooks
    private let state: StateDirectory

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - application: The application, which this device is registered with.
    ///   - backend: The remote storage.
    ///   - state: This device's memory, which holds the keychain.
    public init(_ application: ApplicationRegistration, backend: any RemoteBackend, state: StateDirectory) {
        self.application = application
        hooks = backend.keychainSynchronizationHooks
        self.state = state
    }

    private nonisolated var hierarchy: ApplicationHierarchy { application.hierarchy }

    private var key: ApplicationKey {
        ApplicationKey(hooks.backend, application.application)
    }

    /// Synchronizes the keychain in three rounds of requests, however many clients there are.
    ///
    /// Files that are larger than 256 KiB or can't be read are read one after the other.
    ///
    /// - Throws: ``StoreSyncError``: `applicationChanged` if the application was removed or created again meanwhile,
    ///   `passwordRequired` if its keys were deleted from this device, `busy`; what the backend throws; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> KeychainSynchronization {
        try await translatingErrors {
            let executor = context.blockingExecutor
            let isUsed = try await state.hasSynchronizableItems(for: key, on: executor)
            guard let key = application.seal.key else {
                let warning = "\(application.application) isn't encrypted, so its keychain's items stay on this device."
                return result(hasPublished: false, warnings: isUsed ? [warning] : [])
            }
            guard isUsed || application.hasKeychains else { return result(hasPublished: false, warnings: []) }
            let lock = try await state.lock(.keychain(self.key), .exclusive, for: context)
            defer { lock.release() }
            return try await synchronize(key, context)
        }
    }

    private func synchronize(_ key: EpochKey, _ context: OperationContext) async throws -> KeychainSynchronization {
        async let clients = hooks.backend.applicationRegistrationHooks.listClients(hierarchy)
        let items = try await hooks.listKeychainFiles(hierarchy)
        let files = try await read(items, with: key)
        context.reportProgress(0.4)
        var memory = try await context.blocking { [state, key = self.key] in try state.keychainMemory(for: key) }
        let registered = try await Set(clients)
        let leftOver = leftOver(files.filter { !registered.contains($0.client) }, items)
        let (current, warnings) = try sort(files, memory, leftOver, registered)
        for (client, file) in current { memory.note(file, of: client) }
        let next = try await merge(current, registered, memory, key, context)
        context.reportProgress(0.6)
        if let next {
            try await publish(next, insteadOf: items, key)
            memory.note(next, of: application.client.rawValue)
            try await remember(memory, context)
            // If that fails, the next synchronization finds the file.
            try? await state.keychain(for: self.key, entitlements: nil, on: context.blockingExecutor)
                .notePublished(next)
        }
        let ownerless = files.filter { !registered.contains($0.client) && $0.client != application.client }
        let late = await removeOrphans(ownerless.filter { leftOver.contains($0.client) }, key)
        let removed = await removeFiles(ofRemovedAmong: ownerless.filter { !leftOver.contains($0.client) }, current)
        return result(hasPublished: next != nil, warnings: warnings + late + removed)
    }

    /// Writes this client's file, unless it has changed since it was listed.
    private func publish(_ next: KeychainFile, insteadOf items: [RemoteItem], _ key: EpochKey) async throws {
        let client = application.client
        let sealed = next.sealed(with: key, application: hierarchy.application.rawValue, client: client.rawValue)
        let former = items.first { $0.name == hierarchy.keychain(client).lastComponent }
        guard try await hooks.saveKeychainFile(sealed, of: client, insteadOf: former, hierarchy) else {
            throw StoreSyncError(
                .busy,
                "\(hierarchy.keychain(client)) on the remote has changed since it was read. Synchronize again."
            )
        }
    }

    /// The clients of files that were sealed for another epoch and haven't changed for a month, among files of unregistered clients.
    ///
    /// A file's epoch isn't authenticated: it differs too if the file's header is damaged, or if the registration of an application
    /// that was created again arrives after the file.
    private func leftOver(_ files: [Reading], _ items: [RemoteItem]) -> Set<RemoteIdentifier> {
        let start = state.startOfArrivals
        let old = Set(items.filter { $0.modified ?? .distantFuture <= start }.map(\.name))
        return Set(
            files.filter { reading in
                reading.client != application.client && reading.file.isOrphan
                    && hierarchy.keychain(reading.client).lastComponent.map(old.contains) == true
            }.map(\.client)
        )
    }

    /// Removes files that were sealed for another epoch, unless the application was created again meanwhile.
    ///
    /// A device that doesn't know yet that the application was created again may write such a file into the new one.
    ///
    /// - Returns: Warnings about files that stay.
    private func removeOrphans(_ files: [Reading], _ key: EpochKey) async -> [String] {
        guard !files.isEmpty else { return [] }
        do {
            let bytes = try await hooks.backend.applicationRegistrationHooks.fetchRegistration(hierarchy)
            let info = try bytes.map { try RegistrationInfo($0, at: hierarchy.registration) }
            guard info?.epoch == key.epoch.uuidString else {
                return files.map {
                    "\(hierarchy.keychain($0.client)) on the remote was ignored: it belongs to another application."
                }
            }
            for file in files { try await hooks.removeKeychainFile(of: file.client, hierarchy) }
            return []
        } catch {
            return [Self.notRemoved(error)]
        }
    }

    /// Removes the files of those unregistered clients that were removed and whose edits this client's file on the remote has.
    ///
    /// - Returns: Warnings about files that stay.
    private func removeFiles(ofRemovedAmong files: [Reading], _ merged: [String: KeychainFile]) async -> [String] {
        guard !files.isEmpty else { return [] }
        let notes = ClientNotes(
            subject: .application(hierarchy),
            seal: application.seal,
            hooks: hooks.backend.applicationRegistrationHooks
        )
        var warnings: [String] = []
        do {
            let removed = try await notes.removed(among: Set(files.map(\.client)))
            warnings += removed.warnings
            let unreadable = Set(files.filter { (try? $0.file.get()) == nil }.map(\.client))
            for client in removed.clients.sorted() {
                if merged[client.rawValue] != nil {
                    try await hooks.removeKeychainFile(of: client, hierarchy)
                } else if unreadable.contains(client) {
                    warnings.append(
                        """
                        \(client) was removed from \(application.application) and won't write its keychain file again. If no \
                        device can read \(hierarchy.keychain(client)) when everything has arrived, delete this file on the remote.
                        """
                    )
                }
            }
        } catch {
            warnings.append(Self.notRemoved(error))
        }
        return warnings
    }

    private static func notRemoved(_ error: any Error) -> String {
        "Keychain files that are needed no more are still on the remote. \(StoreSyncError.sentence(about: error))"
    }

    /// Merges the files into the keychain and remembers them, if the application is still that from which they were read.
    ///
    /// The keychain is emptied under the same lock when the application is removed or created again.
    ///
    /// - Returns: The file to publish for this client; `nil` if its file is up to date.
    /// - Throws: ``StoreSyncError/Code/applicationChanged``; ``StoreSyncError/Code/passwordRequired`` if this device's keys were
    ///   deleted meanwhile; ``StoreSyncError/Code/busy``.
    private func merge(
        _ files: [String: KeychainFile],
        _ registered: Set<RemoteIdentifier>,
        _ memory: KeychainFileMemory,
        _ key: EpochKey,
        _ context: OperationContext
    ) async throws -> KeychainFile? {
        let lock = try await state.lock(.application(self.key), .shared, for: context)
        defer { lock.release() }
        let executor = context.blockingExecutor
        let pin = try await context.blocking { [state, key = self.key] in try state.pin(for: key) }
        guard let epoch = pin?.epoch, UUID(uuidString: epoch) == key.epoch else {
            throw StoreSyncError(
                .applicationChanged,
                """
                \(application.application) was removed or created again while its keychain was being synchronized. \
                Nothing was merged. Register with the new application, then synchronize again.
                """
            )
        }
        guard try await state.masterKey(for: self.key, epoch: epoch, on: executor) != nil else {
            throw StoreSyncError.passwordRequired(application.application)
        }
        let next = try await state.keychain(for: self.key, entitlements: nil, on: executor)
            .merge(files, as: application.client.rawValue, registered: Set(registered.map(\.rawValue)))
        // Even if this client's file can't be written.
        try await remember(memory, context)
        return next
    }

    private func remember(_ memory: KeychainFileMemory, _ context: OperationContext) async throws {
        try await context.blocking { [state, key] in try state.setKeychainMemory(memory, for: key) }
    }

    private func result(hasPublished: Bool, warnings: [String]) -> KeychainSynchronization {
        KeychainSynchronization(
            isEncrypted: application.isEncrypted,
            hasPublished: hasPublished,
            warnings: warnings
        )
    }

    // MARK: The files

    /// A client's file, or why it can't be used.
    private typealias Reading = (client: RemoteIdentifier, file: Result<KeychainFile, StoreSyncError>)

    /// Reads the clients' files: small ones concurrently, and the others one after the other, because an attacker could make
    /// each of them fill the memory.
    private func read(_ items: [RemoteItem], with key: EpochKey) async throws -> [Reading] {
        let files = items.filter { $0.kind == .file }.compactMap { item in
            ApplicationHierarchy.client(ofKeychainNamed: item.name).map { (client: $0, size: item.size) }
        }
        let small = files.filter { $0.size <= Self.smallBytes }.map(\.client)
        var readings = try await small.concurrentMap { [self] in
            try await read($0, with: key, upTo: Int(Self.smallBytes))
        }.compactMap(\.self)
        // Files that are larger than listed are among the unreadable ones.
        readings.removeAll { (try? $0.file.get()) == nil }
        let unread = Set(files.map(\.client)).subtracting(readings.map(\.client))
        for client in unread {
            if let reading = try await read(client, with: key, upTo: KeychainFile.maximumSealedBytes) {
                readings.append(reading)
            }
        }
        return readings
    }

    /// The size up to which many files are in memory at the same time.
    private static let smallBytes: Int64 = 256 << 10

    private nonisolated func read(
        _ client: RemoteIdentifier,
        with key: EpochKey,
        upTo limit: Int
    ) async throws -> Reading? {
        do {
            guard let sealed = try await hooks.fetchKeychainFile(of: client, upTo: limit, hierarchy) else { return nil }
            return (client, .success(try KeychainFile(openingFileOf: client, sealed, with: key, in: hierarchy)))
        } catch let error as StoreSyncError {
            return (client, .failure(error))
        }
    }

    /// Separates the usable files, by client, from warnings about the others.
    private func sort(
        _ readings: [Reading],
        _ memory: KeychainFileMemory,
        _ leftOver: Set<RemoteIdentifier>,
        _ registered: Set<RemoteIdentifier>
    ) throws -> (current: [String: KeychainFile], warnings: [String]) {
        var current: [String: KeychainFile] = [:]
        var warnings: [String] = []
        for (client, file) in readings {
            switch file {
            case .success(let file) where memory.isOlder(file, of: client.rawValue):
                warnings.append(
                    """
                    \(hierarchy.keychain(client)) on the remote is older than the version that this device has read: \
                    the newer one is still arriving, or an old one was put back. The file was ignored.
                    """
                )
            case .success(let file): current[client.rawValue] = file
            // Removed in the end.
            case .failure where leftOver.contains(client): break
            case .failure(let error):
                // The file is authentic, and a newer version of this program wrote it on this device. Writing would
                // lose its content.
                if client == application.client, (error.cause as? KeychainError)?.code == .unsupportedFormat {
                    throw error
                }
                warnings.append(error.message)
            }
        }
        let read = Set(readings.map(\.client.rawValue))
        for client in registered where memory.clients.contains(client.rawValue) && !read.contains(client.rawValue) {
            guard client != application.client else { continue }
            warnings.append(
                "\(hierarchy.keychain(client)) is missing on the remote until that client synchronizes again."
            )
        }
        return (current, warnings.sorted())
    }
}

extension Result<KeychainFile, StoreSyncError> {
    /// Whether the file was sealed for another epoch of the application.
    fileprivate var isOrphan: Bool {
        if case .failure(let error) = self { error.code == .orphan } else { false }
    }
}

extension KeychainFile {
    /// Opens a client's file, and reports errors in the same way as for other files.
    init(
        openingFileOf client: RemoteIdentifier,
        _ sealed: [UInt8],
        with key: EpochKey,
        in hierarchy: ApplicationHierarchy
    ) throws(StoreSyncError) {
        let path = hierarchy.keychain(client)
        do {
            let application = hierarchy.application.rawValue
            try self.init(opening: sealed, with: key, application: application, client: client.rawValue)
        } catch let error as CryptographyError {
            throw StoreSyncError(error, at: path)
        } catch let error as KeychainError {
            throw StoreSyncError(
                error.code == .unsupportedFormat ? .unsupportedFormat : .corrupt,
                "\(error.message) (\(path) on the remote)",
                cause: error
            )
        } catch {
            throw StoreSyncError.corrupt(path, "\(error)")
        }
    }
}
