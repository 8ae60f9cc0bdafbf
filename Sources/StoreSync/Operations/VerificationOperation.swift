public import Operations
public import RemoteStorage
import SyncCryptography
import ThreadSupport

/// What is wrong with an application on the remote: what ``VerificationOperation`` results in.
public struct VerificationReport: Sendable, Hashable {
    /// One thing that is wrong.
    public struct Problem: Sendable, Hashable {
        /// Where it is.
        public let path: String
        /// What kind it is: `corrupt`, `missing` or `unsupportedFormat`.
        public let code: String
        /// What is wrong and what to do about it.
        public let message: String
    }

    /// How many files were read.
    public internal(set) var files = 0
    /// How many bytes they have.
    public internal(set) var bytes: Int64 = 0
    /// What is wrong.
    public internal(set) var problems: [Problem] = []
    /// What is odd and does no harm.
    public internal(set) var warnings: [String] = []
    /// What was repaired or cleaned up.
    public internal(set) var repaired: [String] = []
}

/// Reads every file of an application and checks it against what it says of itself. Registers nobody.
///
/// With `repairs`, what this device left unfinished is finished, and what it left behind is removed; what others left is
/// theirs and only reported.
public actor VerificationOperation: Operation {
    private let hierarchy: ApplicationHierarchy
    private var repairs: Bool
    private let backend: any RemoteBackend
    private let state: StateDirectory
    private let delegate: ApplicationRegistrationOperation.Delegate
    private var seal: ApplicationSeal
    private var report = VerificationReport()
    /// Every path that was accounted for; what is left of the listing is a stranger.
    private var known: Set<RemotePath> = []
    /// Every path whose bytes were read.
    private var read: Set<RemotePath> = []

    /// Creates an operation.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - repairs: Whether to finish and clean up what this device left.
    ///   - backend: Where it is.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the password of an encrypted application whose keys this device doesn't have.
    public init(
        _ application: RemoteIdentifier,
        repairs: Bool,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        hierarchy = ApplicationHierarchy(application)
        seal = ApplicationSeal(application: application, key: nil)
        self.repairs = repairs
        self.backend = backend
        self.state = state
        self.delegate = delegate ?? { _ in throw StoreSyncError.passwordRequired(application) }
    }

    private var key: ApplicationKey {
        ApplicationKey(remote: backend.identity, application: hierarchy.application.rawValue)
    }

    /// Verifies.
    public func main(_ context: OperationContext) async throws -> VerificationReport {
        try await translatingErrors {
            let own = try await context.blocking { [state, key] in try state.peekClientIdentifier(for: key) }
                .map { try RemoteIdentifier($0) }
            try await checkStagings(context)
            guard try await backend.status(of: hierarchy.root) != nil else {
                throw StoreSyncError(
                    .applicationMissing,
                    "There is no application \(hierarchy.application) at \(backend.identity). Check both names."
                )
            }
            try await unlock(context)
            let files = try await walk(hierarchy.root)
            let total = files.reduce(Int64(0)) { $0 + $1.item.size }
            let progress = TransferProgress(context, phase: "verifying", totalBytes: total)
            try await checkApplication(own, context)
            for client in try await backend.list(hierarchy.clientDevices).directoryIdentifiers {
                try await checkClient(client, isOwn: client == own)
            }
            for document in try await backend.list(hierarchy.documents).directoryIdentifiers {
                try await checkDocument(hierarchy.document(document), own, progress, context)
            }
            try await readRest(of: files, progress)
            return report
        }
    }

    /// Opens an encrypted application.
    ///
    /// A registration that can't be read is one of the problems that are reported.
    private func unlock(_ context: OperationContext) async throws {
        let files = try await EncryptionFiles.fetch(backend.applicationRegistrationHooks, hierarchy)
        if let bytes = files.registration, (try? RegistrationInfo(bytes, at: hierarchy.registration)) == nil {
            let pin = try await context.blocking { [state, key] in try state.pin(for: key) }
            guard pin?.isEncrypted != true else { throw StoreSyncError.downgraded(hierarchy.application) }
            // Nobody knows what it is: nothing is written.
            repairs = false
            return
        }
        let unlocking = ApplicationUnlocking(hierarchy, backend, state, delegate: delegate)
        seal = try await unlocking.seal(files, context)
        guard seal.isEncrypted else { return }
        try await check(hierarchy.salt) { [path = hierarchy.salt] bytes in
            do {
                _ = try SaltFile(bytes)
            } catch let error as CryptographyError {
                throw StoreSyncError(error, at: path)
            }
        }
    }

    // MARK: Reporting

    private func problem(_ path: RemotePath, _ code: String, _ message: String) {
        report.problems.append(VerificationReport.Problem(path: "\(path)", code: code, message: message))
    }

    private func count(_ path: RemotePath, _ bytes: Int64) {
        guard read.insert(path).inserted else { return }
        report.files += 1
        report.bytes += bytes
    }

    private func repaired(_ path: RemotePath) {
        report.repaired.append("\(path)")
    }

    /// Every file below a directory.
    private func walk(_ directory: RemotePath) async throws -> [(path: RemotePath, item: RemoteItem)] {
        var files: [(path: RemotePath, item: RemoteItem)] = []
        var pending = [directory]
        while let next = pending.popLast() {
            for item in try await backend.list(next) ?? [] {
                guard let path = try? next.appending(item.name) else { continue }
                switch item.kind {
                case .directory: pending.append(path)
                case .file: files.append((path, item))
                case .other: report.warnings.append("\(path) is neither a file nor a directory.")
                }
            }
        }
        return files
    }

    /// Reads a small file and lets `check` look at it.
    ///
    /// - Returns: Whether it's there.
    @discardableResult
    private func check(
        _ path: RemotePath,
        _ role: ApplicationSeal.Role? = nil,
        _ check: ([UInt8]) throws -> Void
    ) async throws -> Bool {
        known.insert(path)
        do {
            guard let bytes = try await backend.smallFile(at: path) else { return false }
            count(path, Int64(bytes.count))
            try check(role.map { try seal.open(bytes, as: $0, at: path) } ?? bytes)
        } catch let error as StoreSyncError {
            problem(path, "\(error.code)", error.message)
        }
        return true
    }

    // MARK: The application

    /// What this device put together aside and couldn't remove; what others did may be alive.
    private func checkStagings(_ context: OperationContext) async throws {
        let own = Set(try await context.blocking { [state, key] in try state.stagings(for: key) })
        let prefix = ApplicationHierarchy.stagingName("")
        let names = (try await backend.list(.root) ?? []).map(\.name)
        for name in names where name.hasPrefix(prefix) {
            let path = try RemotePath.root.appending(name)
            if own.contains(name), repairs {
                try await backend.remove(path)
                repaired(path)
            } else {
                report.warnings.append(
                    own.contains(name)
                        ? "\(path) is left from a registration of this device that was cut off: --repair removes it."
                        : "\(path) belongs to a registration of another device that is under way or was cut off."
                )
            }
        }
        for name in names.compactMap(AsideName.init) where name.application == hierarchy.application {
            report.warnings.append(
                "\(name.name) is left from making the application anew, which is under way or was cut off: the passcode setup finishes it."
            )
        }
        guard repairs else { return }
        for name in own {
            try await context.blocking { [state, key] in try state.forgetStaging(name: name, for: key) }
        }
    }

    private func checkApplication(_ own: RemoteIdentifier?, _ context: OperationContext) async throws {
        let path = hierarchy.registration
        let isRegistered = try await check(path) { _ = try RegistrationInfo($0, at: path) }
        known.insert(hierarchy.readMe)
        guard isRegistered else {
            report.warnings.append("\(path) is missing: this is a tree of TICoreDataSync, or it is still arriving.")
            return
        }
        let missing = try await backend.applicationRegistrationHooks.missingParts(hierarchy) ?? []
        guard !missing.isEmpty else { return }
        let pin = try await context.blocking { [state, key] in try state.pin(for: key) }
        guard repairs, pin != nil else {
            for path in missing.sorted() {
                problem(path, "missing", "It always exists. The next registration makes it.")
            }
            return
        }
        let hooks = backend.applicationRegistrationHooks
        try await hooks.createApplicationDirectoryStructure(hierarchy)
        try await hooks.saveReadMe(ApplicationRegistrationRequest.defaultReadMe, hierarchy)
        for path in missing.sorted() { repaired(path) }
    }

    private func checkClient(_ client: RemoteIdentifier, isOwn: Bool) async throws {
        let path = hierarchy.deviceInfo(client)
        let isThere = try await check(path, .deviceInfo(client)) { bytes in
            let info = try DeviceInfo(bytes, at: path)
            guard info.client == client.rawValue else {
                throw StoreSyncError.corrupt(path, "it belongs to client \(info.client)")
            }
        }
        guard !isThere else { return }
        report.warnings.append(
            isOwn
                ? "\(path) is missing: this device's registration was cut off. Register again to finish it."
                : "\(path) is missing: that client's registration is under way or was cut off."
        )
    }

    // MARK: Documents

    private func checkDocument(
        _ document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ progress: TransferProgress,
        _ context: OperationContext
    ) async throws {
        let path = document.documentInfo
        var info: DocumentInfo?
        let role = ApplicationSeal.Role.documentInfo(document.document)
        let isThere = try await check(path, role) { info = try DocumentInfo($0, at: path) }
        if !isThere {
            report.warnings.append("\(path) is missing: the document's registration has not arrived whole.")
        }
        for key in try await backend.documentRegistrationHooks.listIntegrityKeys(document) {
            let role = ApplicationSeal.Role.integrityKey(key, of: document.document)
            // TICoreDataSync's own are whatever it wrote.
            try await check(try document.integrityKey(key), role) { _ in }
        }
        try await checkStructure(document, info, own, context)
        let hooks = backend.wholeStoreUploadHooks
        let published = try await PublishedStores.list(hooks, document)
        for name in published.published.sorted(by: { ($0.client, $0.generation) < ($1.client, $1.generation) }) {
            try await checkUpload(name, document, progress)
        }
        try await checkFolders(published, document, own, context)
        for stranger in published.strangers {
            report.warnings.append("\(stranger) doesn't belong there; it does no harm.")
            known.insert(stranger)
        }
    }

    private func checkStructure(
        _ document: DocumentHierarchy,
        _ info: DocumentInfo?,
        _ own: RemoteIdentifier?,
        _ context: OperationContext
    ) async throws {
        guard let info, let integrityKey = info.integrityKey else { return }
        let hooks = backend.documentRegistrationHooks
        var missing = try await hooks.missingDirectories(document)
        let keyFile = try document.integrityKey(integrityKey)
        if try await backend.status(of: keyFile) == nil { missing.insert(keyFile) }
        guard !missing.isEmpty else { return }
        let documentKey = DocumentKey(application: key, document: document.document.rawValue)
        let isKnown = try await context.blocking { [state] in try state.integrityKey(for: documentKey) != nil }
        // Who died while making the document remembers no key yet, and is the one that its info names.
        guard repairs, isKnown || info.originalDevice == own?.rawValue else {
            for path in missing.sorted() {
                problem(path, "missing", "It always exists. The next registration of the document makes it.")
            }
            return
        }
        try await hooks.createDirectories(missing.subtracting([keyFile]), document)
        let content = DocumentInfo.integrityKeyFile(originalDevice: info.originalDevice)
        let sealed = seal.seal(content, as: .integrityKey(integrityKey, of: document.document))
        try await hooks.saveIntegrityKey(integrityKey, content: sealed, document)
        for path in missing.sorted() { repaired(path) }
    }

    private func checkUpload(
        _ name: UploadName,
        _ document: DocumentHierarchy,
        _ progress: TransferProgress
    ) async throws {
        let path = document.manifest(name)
        var manifest: StoreManifest?
        let role = ApplicationSeal.Role.manifest(name, of: document.document)
        try await check(path, role) { manifest = try StoreManifest($0, named: name, at: path) }
        guard let manifest else { return }
        for file in manifest.files {
            let path = file.file.path(in: document.upload(name))
            known.insert(path)
            guard let content = try await backend.read(path) else {
                problem(path, "missing", "It has not arrived, or was removed. Push the store again if it stays away.")
                continue
            }
            let role = ApplicationSeal.Role.file(file.file, name, of: document.document)
            do {
                let found = try await digest(of: content, role, salt: file.salt, progress)
                count(path, found.sealedBytes)
                guard found.sealedBytes != file.storedSize || found.root != file.contentRoot else { continue }
                problem(
                    path,
                    "corrupt",
                    "It isn't what was uploaded. Push the store again from a device that has it, or restore the file from a backup."
                )
            } catch let error as CryptographyError {
                let error = StoreSyncError(error, at: path)
                count(path, content.length ?? 0)
                problem(path, "\(error.code)", error.message)
            }
        }
    }

    /// The digest of a file of a store, opened where it's sealed, and how many bytes it has on the remote.
    private func digest(
        of content: RemoteContent,
        _ role: ApplicationSeal.Role,
        salt: [UInt8]?,
        _ progress: TransferProgress
    ) async throws -> (root: ContentRoot, sealedBytes: Int64) {
        guard let key = seal.key else {
            let digest = try await digest(of: content, progress)
            return (digest.root, digest.byteCount)
        }
        let summary = Locked<ContentSummary?>(nil)
        let (context, counted) = (seal.context(role), content.counted(by: progress))
        try await SealingWorkers.withWorkers { workers in
            let opening = key.opening(counted, as: context, salt: salt, on: workers) { pass in
                summary.withLock { $0 = pass }
            }
            for try await _ in opening { try Task.checkCancellation() }
        }
        guard let summary = summary.withLock({ $0 }) else { preconditionFailure("a pass that ended has a summary") }
        return (summary.contentRoot, summary.sealedBytes)
    }

    private func digest(
        of content: RemoteContent,
        _ progress: TransferProgress
    ) async throws -> (root: ContentRoot, byteCount: Int64) {
        var hasher = ContentRootHasher()
        for try await chunk in content.counted(by: progress) {
            try Task.checkCancellation()
            hasher.update(chunk)
        }
        return (hasher.finalize(), hasher.byteCount)
    }

    /// Folders without a manifest, and the fixed names.
    private func checkFolders(
        _ published: PublishedStores,
        _ document: DocumentHierarchy,
        _ own: RemoteIdentifier?,
        _ context: OperationContext
    ) async throws {
        let key = DocumentKey(application: key, document: document.document.rawValue)
        let ours = try await context.blocking { [state] in
            try own.map { Set(try state.uploads(for: key, client: $0.rawValue).map(\.reference)) } ?? []
        }
        for folder in published.folders where !published.published.contains(folder) {
            for file in WholeStoreFile.allCases { known.insert(file.path(in: document.upload(folder))) }
            let path = document.upload(folder)
            guard folder.client == own, ours.contains(folder.reference) else {
                report.warnings.append("\(path) isn't published: that client's upload is under way or was cut off.")
                continue
            }
            guard repairs else {
                report.warnings.append(
                    "\(path) is left from a push of this device that was cut off: --repair removes it."
                )
                continue
            }
            // Refused while a push of this device is under way: then it isn't left behind.
            let lock = try await context.blocking { [state] in try state.lock(.document(key), .exclusive) }
            defer { lock.release() }
            try await backend.remove(path)
            try await context.blocking { [state] in try state.forgetUpload(folder.upload) }
            repaired(path)
        }
        for (client, files) in published.fixedNames {
            for file in files.keys { known.insert(file.path(in: document.wholeStores(client))) }
        }
        // A sealed tree has no fixed names.
        if let own, !seal.isEncrypted { try await checkFixedNames(of: own, published, document) }
    }

    /// The names that TICoreDataSync knows are this client's newest store: a push that was cut off may have left older ones.
    private func checkFixedNames(
        of own: RemoteIdentifier,
        _ published: PublishedStores,
        _ document: DocumentHierarchy
    ) async throws {
        let newest = published.published.filter { $0.client == own }.max { $0.generation < $1.generation }
        guard let newest else { return }
        let directory = document.upload(newest)
        for file in WholeStoreFile.allCases {
            let (source, fixed) = (file.path(in: directory), file.path(in: document.wholeStores(own)))
            known.insert(fixed)
            guard let expected = try await backend.read(source), let actual = try await backend.read(fixed) else {
                if try await backend.status(of: source) != nil { try await refresh(fixed, from: source) }
                continue
            }
            let (wanted, found) = try await (ContentRootHasher.digest(expected), ContentRootHasher.digest(actual))
            guard wanted != found else { continue }
            try await refresh(fixed, from: source)
        }
    }

    private func refresh(_ fixed: RemotePath, from source: RemotePath) async throws {
        guard repairs else {
            report.warnings.append("\(fixed) is older than this device's newest upload: --repair refreshes it.")
            return
        }
        try await backend.wholeStoreUploadHooks.refreshFixedName(from: source, to: fixed)
        repaired(fixed)
    }

    // MARK: The rest

    /// Reads what no check has read, to see that it can be read, and names what doesn't belong there.
    private func readRest(
        of files: [(path: RemotePath, item: RemoteItem)],
        _ progress: TransferProgress
    ) async throws {
        for (path, _) in files where !read.contains(path) {
            guard let content = try await backend.read(path) else { continue }
            count(path, try await digest(of: content, progress).byteCount)
            guard !known.contains(path), !isOurs(path) else { continue }
            report.warnings.append("\(path) doesn't belong there; it does no harm.")
        }
    }

    /// Notes and change sets, which have no content to check yet.
    private func isOurs(_ path: RemotePath) -> Bool {
        let name = path.lastComponent ?? ""
        return ["plist", "recentsync", "syncchg", "synccmd", "ticdsync"].contains { name.hasSuffix(".\($0)") }
    }
}

extension ContentRootHasher {
    fileprivate static func digest(_ content: RemoteContent) async throws -> ContentRoot {
        var hasher = ContentRootHasher()
        for try await chunk in content { hasher.update(chunk) }
        return hasher.finalize()
    }
}
