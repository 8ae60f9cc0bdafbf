public import Operations
public import RemoteStorage
import SyncCryptography

/// Reads every file of an application and checks that it's authentic and intact, without registering this device.
///
/// With `repairs`, the operation finishes what this device left unfinished and removes what it left behind. What other
/// devices left is only reported.
public actor VerificationOperation: Operation {
    let access: ApplicationAccess
    /// Whether this attempt repairs what this device left: not if the state of the application is unknown.
    var repairs = false
    let hooks: any VerificationHooks
    private let mayRepair: Bool
    var seal: ApplicationSeal
    var report = VerificationReport()
    /// Every path that belongs to the application; other paths in the listing are foreign.
    var known: Set<RemotePath> = []
    /// The uploads of the document being checked that have a missing or damaged file, or a damaged manifest.
    var damaged: Set<UploadName> = []
    /// Every path whose bytes were read.
    var read: Set<RemotePath> = []

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - repairs: Whether to finish and clean up what this device left.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the password of an encrypted application whose keys this device doesn't have.
    public init(
        _ application: RemoteIdentifier,
        repairs: Bool,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        access = ApplicationAccess(application, backend: backend, state: state, delegate: delegate)
        seal = ApplicationSeal(application: application, key: nil)
        mayRepair = repairs
        hooks = backend.verificationHooks
    }

    nonisolated var hierarchy: ApplicationHierarchy { access.hierarchy }
    nonisolated var backend: any RemoteBackend { access.backend }
    nonisolated var state: StateDirectory { access.state }
    nonisolated var key: ApplicationKey { access.key }

    func key(of document: DocumentHierarchy) -> DocumentKey { access.key(document.document) }

    /// Verifies the application.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing` and `remoteUnavailable`; `CancellationError`.
    public func main(_ context: OperationContext) async throws -> VerificationReport {
        beginAttempt()
        return try await translatingErrors {
            try await checkStagings(context)
            guard try await applicationExists() else { throw access.missing }
            var failure: (any Error)?
            do {
                try await checkFiles(context)
            } catch {
                failure = error
            }
            // What was found of an application that is removed meanwhile doesn't count.
            if (try? await applicationExists()) == false { throw removedMeanwhile }
            if let failure { throw failure }
            if !report.problems.isEmpty { await warnOfRemoval() }
            return report
        }
    }

    /// Warns that the application may be in the middle of its removal, if it lacks directories that every application has.
    private func warnOfRemoval() async {
        // The report doesn't depend on it.
        guard let missing = try? await backend.applicationRegistrationHooks.missingParts(hierarchy),
            !missing.isDisjoint(with: hierarchy.directories)
        else { return }
        report.warnings.append(
            """
            \(hierarchy.root) lacks directories that every application has. If a device is removing the application, wait for \
            that; if a removal was interrupted, complete it with storesync remove application.
            """
        )
    }

    private func applicationExists() async throws -> Bool {
        try await backend.applicationRegistrationHooks.applicationDirectoryExists(hierarchy)
    }

    private var removedMeanwhile: StoreSyncError {
        StoreSyncError(
            .applicationMissing,
            """
            \(hierarchy.application) at \(backend.identity) is gone since the verification began. If a device has removed \
            the application, there is nothing to verify; if the storage isn't mounted any more, mount it, and verify again.
            """
        )
    }

    /// Checks all files of the application.
    private func checkFiles(_ context: OperationContext) async throws {
        let own = try await context.blocking { [state, key] in try state.peekClientIdentifier(for: key) }
            .map { try RemoteIdentifier($0) }
        let isOpen = try await unlock(context)
        let files = try await walk(hierarchy.root)
        let total = files.reduce(Int64(0)) { $0.adding(size: $1.item.size) }
        let progress = TransferProgress(context, phase: "verifying", totalBytes: total)
        try await checkApplication(isOpen: isOpen, context)
        guard isOpen else {
            report.warnings.append(
                "Sealed files were read but not opened, since this device doesn't have their key."
            )
            return try await readRest(of: files, progress, namesStrangers: false)
        }
        try await checkNotes()
        try await checkKeychains(context)
        for client in try await backend.applicationRegistrationHooks.listClients(hierarchy) {
            try await checkClient(client, isOwn: client == own)
        }
        let remembered = try await context.blocking { [state, key] in try state.documents(of: key) }
        let listed = try await backend.documentRegistrationHooks.listDocuments(hierarchy)
        for document in Set(listed + remembered).sorted() {
            let document = hierarchy.document(document)
            do {
                try await checkDocument(document, own, progress)
            } catch let error as RemoteError where Self.isOfOneFile(error) {
                unreadable(error.path ?? document.root, error)
            }
        }
        try await readRest(of: files, progress)
    }

    /// Forgets what a former attempt has found, but not what it has repaired.
    private func beginAttempt() {
        (repairs, seal) = (mayRepair, ApplicationSeal(application: hierarchy.application, key: nil))
        (known, damaged, read) = ([], [], [])
        let repaired = report.repaired
        report = VerificationReport()
        report.repaired = repaired
    }

    // MARK: Reporting

    func problem(_ path: RemotePath, code: String, _ message: String) {
        report.problems.append(VerificationReport.Problem(path: "\(path)", code: code, message: message))
    }

    func problem(_ path: RemotePath, _ error: StoreSyncError) { problem(path, code: "\(error.code)", error.message) }

    /// Whether the storage refuses to read one file, and the others can still be checked.
    static func isOfOneFile(_ error: RemoteError) -> Bool { [.notAllowed, .wrongKind].contains(error.code) }

    /// Reports a file that the storage refuses to read.
    func unreadable(_ path: RemotePath, _ error: RemoteError) {
        count(path, 0)
        problem(path, code: "unreadable", error.message)
    }

    func count(_ path: RemotePath, _ bytes: Int64) {
        guard read.insert(path).inserted else { return }
        report.files += 1
        report.bytes = report.bytes.adding(size: bytes)
    }

    func repaired(_ path: RemotePath) {
        report.repaired.append("\(path)")
    }

    /// The maximum depth of a file, and number of all items: an untrusted storage may list directories without an end.
    private static let (maximumDepth, maximumItems) = (16, 1_000_000)

    /// Every file below a directory.
    private func walk(_ directory: RemotePath) async throws -> [(path: RemotePath, item: RemoteItem)] {
        var files: [(path: RemotePath, item: RemoteItem)] = []
        var count = 0
        var pending = [directory]
        while let next = pending.popLast() {
            for item in try await hooks.listItems(in: next) ?? [] {
                guard let path = try? next.appending(item.name) else { continue }
                count += 1
                guard count <= Self.maximumItems else { throw endlessLists }
                switch item.kind {
                case .directory where path.components.count == Self.maximumDepth:
                    report.warnings.append("\(path) isn't checked: no device creates so many levels of directories.")
                case .directory: pending.append(path)
                case .file: files.append((path, item))
                case .other: report.warnings.append("\(path) is neither a file nor a directory.")
                }
            }
        }
        return files
    }

    private var endlessLists: StoreSyncError {
        StoreSyncError(
            .remoteUnavailable,
            """
            \(backend.identity) lists more than \(Self.maximumItems) files and directories of \(hierarchy.application), \
            which can't be verified. Try again later. If that doesn't help, remove what no device has put there.
            """
        )
    }

    /// Reads a small file and passes its content to `check`.
    ///
    /// - Returns: Whether the file exists.
    @discardableResult
    func check(
        _ path: RemotePath,
        _ role: ApplicationSeal.Role? = nil,
        _ check: ([UInt8]) throws -> Void
    ) async throws -> Bool {
        try await self.check(path, fetching: hooks.fetchFile) { bytes in
            try check(role.map { try seal.open(bytes, as: $0, at: path) } ?? bytes)
        }
    }

    /// Reads a file of the document's log, which may be larger than others, and passes its content to `check`.
    ///
    /// `explain` adds to the error of a damaged file what to do about it.
    ///
    /// - Returns: Whether the file exists.
    @discardableResult
    func checkLog(
        _ path: RemotePath,
        _ role: ApplicationSeal.Role,
        explaining explain: (StoreSyncError) -> StoreSyncError,
        _ check: ([UInt8]) throws -> Void
    ) async throws -> Bool {
        let limit = SyncFileName.maximumBytes(at: path)
        let hooks = backend.synchronizationHooks
        return try await self.check(path, fetching: { try await hooks.fetchSyncFile(at: $0, upTo: limit) }) { bytes in
            do {
                try check(seal.open(bytes, as: role, at: path, upTo: limit))
            } catch let error as StoreSyncError where [.corrupt, .tampered].contains(error.code) {
                throw explain(error)
            }
        }
    }

    private func check(
        _ path: RemotePath,
        fetching fetch: (RemotePath) async throws -> [UInt8]?,
        _ check: ([UInt8]) throws -> Void
    ) async throws -> Bool {
        known.insert(path)
        do {
            guard let bytes = try await fetch(path) else { return false }
            count(path, Int64(bytes.count))
            try check(bytes)
        } catch let error as StoreSyncError {
            problem(path, error)
        } catch let error as RemoteError where Self.isOfOneFile(error) {
            unreadable(path, error)
        }
        return true
    }

    // MARK: Other files

    /// Reads the files that no check has read, to see that they can be read, and warns of foreign files.
    private func readRest(
        of files: [(path: RemotePath, item: RemoteItem)],
        _ progress: TransferProgress,
        namesStrangers: Bool = true
    ) async throws {
        for (path, item) in files where !read.contains(path) {
            do {
                guard let content = try await hooks.openFile(at: path) else { continue }
                count(path, try await digest(of: content.counted(by: progress)).byteCount)
            } catch let error as RemoteError where Self.isOfOneFile(error) {
                unreadable(path, error)
            } catch let error as RemoteError where error.code == .unavailable {
                // It may be unavailable only because it was replaced or removed while it was read.
                guard let now = try await hooks.fetchItem(at: path) else { continue }
                guard let tag = now.tag, let former = item.tag, tag != former else { throw error }
            }
            guard namesStrangers, !known.contains(path), !isOurs(path) else { continue }
            report.warnings.append("\(path) doesn't belong there; it does no harm.")
        }
    }

    /// Whether a file that no check knows is named as devices name theirs: then it isn't reported as foreign.
    private func isOurs(_ path: RemotePath) -> Bool {
        let name = path.lastComponent ?? ""
        return ["plist", "recentsync", "syncchg", "synccmd", "ticdsync"].contains { name.hasSuffix(".\($0)") }
    }
}
