public import Operations
public import RemoteStorage
import SyncCryptography

/// Reads every file of an application and checks it against what it says of itself. Registers nobody.
///
/// With `repairs`, what this device left unfinished is finished, and what it left behind is removed; what others left is
/// theirs and only reported.
public actor VerificationOperation: Operation {
    let hierarchy: ApplicationHierarchy
    private(set) var repairs: Bool
    let backend: any RemoteBackend
    let state: StateDirectory
    private let delegate: ApplicationRegistrationOperation.Delegate
    private(set) var seal: ApplicationSeal
    var report = VerificationReport()
    /// Every path that was accounted for; what is left of the listing is a stranger.
    var known: Set<RemotePath> = []
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

    var key: ApplicationKey {
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
        let unlocking = ApplicationUnlocking(hierarchy: hierarchy, key: key, state: state, delegate: delegate)
        seal = try await unlocking.seal(files, context)
        guard let key = seal.key else { return }
        try await check(hierarchy.salt) { [path = hierarchy.salt] bytes in
            do {
                guard try SaltFile(bytes).epoch != key.epoch else { return }
                throw StoreSyncError(
                    .tampered,
                    "\(path) on the remote belongs to another application. It decides nothing. Restore it from a backup."
                )
            } catch let error as CryptographyError {
                throw StoreSyncError(error, at: path)
            }
        }
    }

    // MARK: Reporting

    func problem(_ path: RemotePath, _ code: String, _ message: String) {
        report.problems.append(VerificationReport.Problem(path: "\(path)", code: code, message: message))
    }

    func count(_ path: RemotePath, _ bytes: Int64) {
        guard read.insert(path).inserted else { return }
        report.files += 1
        report.bytes += bytes
    }

    func repaired(_ path: RemotePath) {
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
    func check(
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
        let present = (try await backend.list(.root) ?? []).map(\.name).filter { $0.hasPrefix(prefix) }
        for name in present {
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
