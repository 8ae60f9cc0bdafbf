import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// The application that a new one replaces, as it was when that was decided.
struct ReplacedApplication: Sendable, Hashable {
    /// Its registration, byte for byte; `nil` if none was found.
    var registration: [UInt8]?

    /// Its epoch; `nil` if the registration can't be read.
    func epoch(_ hierarchy: ApplicationHierarchy) -> UUID? {
        registration.flatMap { try? RegistrationInfo($0, at: hierarchy.registration) }
            .flatMap { UUID(uuidString: $0.epoch) }
    }
}

// Replacing an application with a new one, under another epoch and other keys.
//
// Where the storage moves directories exclusively, the new application is staged, and the old one is moved aside. Then the
// new one is moved into place, and the old one is removed. In between, the application doesn't exist, and the next device
// to come puts the old one back. Elsewhere the registration is replaced first, which at most one device can do, and
// then the keys. The rest of the old application is removed last.
extension ApplicationRegistrationOperation {
    func replace(_ former: ReplacedApplication, _ context: OperationContext) async throws -> ApplicationRegistration {
        guard try await hooks.fetchRegistration(hierarchy) == former.registration else { throw changed }
        if former.registration == nil { try await refuseStrangers() }
        let capabilities = try await hooks.backend.capabilities()
        let movesDirectories = capabilities.contains(.exclusiveDirectoryMove)
        guard movesDirectories || capabilities.contains([.exclusiveCreate, .conditionalReplace]) else {
            throw StoreSyncError(
                .unsupportedStorage,
                """
                \(hooks.backend.identity) can neither move a directory exclusively nor replace a file only if it is still \
                unchanged: two devices that start over could overwrite each other. Nothing was changed.
                """
            )
        }
        let new = try await newApplication(context)
        let (begun, proof) = try await begin(new, former, context)
        let creation = Creation(application: new, client: try RemoteIdentifier(begun.client), proof: proof)
        context.reportProgress(0.5)
        let staged = movesDirectories ? try await moveAside(former, creation, context) : nil
        _ = try await publish(creation, replacing: begun, context) { [self] in
            if let staged {
                try await publishInstead(staged, creation, context)
            } else {
                try await replaceInPlace(former, creation)
            }
            return true
        }
        return registration(of: creation.membership, didCreate: true)
    }

    /// Records the new application, and proves it as the successor if this device has a former epoch's keys.
    ///
    /// By the record, this device recognizes the new application as its own after a crash.
    private func begin(
        _ new: NewApplication,
        _ former: ReplacedApplication,
        _ context: OperationContext
    ) async throws -> (BegunReplacement, SuccessorProof?) {
        // If an earlier replacement was interrupted, the keys that prove the successor are those of the epoch before
        // it.
        let earlier = try await context.blocking { [state, key] in try state.begunReplacement(for: key) }
        var keys: EpochKey?
        for epoch in [former.epoch(hierarchy)?.uuidString, earlier?.formerEpoch].compactMap({ $0 }) where keys == nil {
            keys = try await unlocking.keptKey(of: epoch, context)
        }
        let begun = BegunReplacement(
            epoch: new.info.epoch,
            client: UUID().uuidString,
            formerEpoch: keys?.epoch.uuidString
        )
        try await context.blocking { [state, key] in try state.noteReplacement(begun, for: key) }
        guard let keys, let epoch = new.seal.key?.epoch else { return (begun, nil) }
        return (begun, SuccessorProof(former: keys, successor: epoch, registration: new.registration.bytes))
    }

    /// Refuses to replace a tree with clients but no registration or keys: it's TICoreDataSync's, or still arriving.
    private func refuseStrangers() async throws {
        let files = try await EncryptionFiles.fetch(hooks, hierarchy)
        guard !files.hasAnyKeyFile, try await !hooks.listClients(hierarchy).isEmpty else { return }
        throw StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has clients and no registration: it is TICoreDataSync's own, or still arriving. \
            It was not deleted. Remove it by hand if no device needs it.
            """
        )
    }

    // MARK: By moving directories

    /// Stages the new application, moves the old one aside, and returns the staged one.
    private func moveAside(
        _ former: ReplacedApplication,
        _ creation: Creation,
        _ context: OperationContext
    ) async throws -> ApplicationHierarchy {
        let staged = try await stage(creation, context)
        let name = AsideName(application: request.application, epoch: former.epoch(hierarchy))
        let old = try hierarchy.staged(as: name.name)
        // Checked again, since creating the keys takes time.
        guard try await hooks.fetchRegistration(hierarchy) == former.registration else { throw changed }
        movedAside = name
        guard try await replacement.moveApplicationAside(hierarchy, to: old.root) else {
            movedAside = nil
            throw changed
        }
        // Another device may have been faster, and its application must survive. An error thrown here puts it back.
        guard try await hooks.fetchRegistration(old) == former.registration else { throw changed }
        return staged
    }

    /// Moves the new application into the place of the former one, which was moved aside.
    private func publishInstead(
        _ staged: ApplicationHierarchy,
        _ creation: Creation,
        _ context: OperationContext
    ) async throws {
        guard try await publishStaged(staged, creation.application, context) else {
            throw try await hooks.fetchRegistration(hierarchy) == nil ? applicationInUse : changed
        }
        guard let former = movedAside.take() else { return }
        // From here on no device puts the old application back, whatever happens to the new one.
        let (old, removing) = (try hierarchy.staged(as: former.name), try hierarchy.staged(as: former.removing.name))
        _ = try await replacement.moveApplicationAside(old, to: removing.root)
    }

    // MARK: In place

    private func replaceInPlace(_ former: ReplacedApplication, _ creation: Creation) async throws {
        let (new, proof) = (creation.application, creation.proof)
        if let proof { try await replacement.saveSuccessor(proof.bytes, of: proof.epoch, hierarchy) }
        guard try await replacement.replaceRegistration(former.registration, with: new.registration.bytes, hierarchy)
        else {
            if let proof { try await replacement.removeSuccessor(of: proof.epoch, hierarchy) }
            throw changed
        }
        try await replacePasswordTest(new)
        if let keyFile = new.keyFile { try await replacement.replaceSalt(SaltFile(for: keyFile).bytes, hierarchy) }
        guard try await completeInPlace(creation) else { throw changed }
    }

    /// Writes the key file, as long as the registration is still this one.
    private func replacePasswordTest(_ new: NewApplication) async throws {
        guard let bytes = new.keyFile?.bytes else { return }
        for _ in 1...Self.maximumKeyWrites {
            // The key file is read before the registration, so that a device that replaces the registration later
            // sees what is written here.
            let former = try await hooks.fetchPasswordTest(hierarchy)
            guard try await hooks.fetchRegistration(hierarchy) == new.registration.bytes else { throw changed }
            if former == bytes { return }
            let isWritten =
                if let former { try await hooks.replacePasswordTest(former, with: bytes, hierarchy) } else {
                    try await hooks.createPasswordTest(bytes, hierarchy)
                }
            if isWritten { return }
        }
        throw StoreSyncError(
            .busy,
            """
            \(hooks.backend.identity) has refused \(Self.maximumKeyWrites) times to write \(hierarchy.passwordTest). \
            \(request.application) lacks its new keys until then: set this device up again.
            """
        )
    }

    private static var maximumKeyWrites: Int { 8 }

    // MARK: Finishing

    /// Removes what is left of the former application, whichever device replaced it.
    func finishReplacement(_ registration: ApplicationRegistration, _ context: OperationContext) async throws {
        try await settleReplacements()
        if let epoch = registration.seal.key?.epoch {
            try await replaceSalt(ofOtherThan: epoch)
            if try await replacement.hasFormerClients(hierarchy, epoch: epoch) {
                try await replacement.removeFormerFiles(hierarchy, epoch: epoch)
            }
        }
        try await context.blocking { [state, key] in try state.noteReplacement(nil, for: key) }
    }

    /// Replaces a former application's salt file with a copy of the current key file's salt.
    private func replaceSalt(ofOtherThan epoch: UUID) async throws {
        async let current = hooks.fetchSalt(hierarchy)
        async let passwordTest = hooks.fetchPasswordTest(hierarchy)
        let former = try await current.flatMap { try? SaltFile($0) }
        guard let former, former.epoch != epoch, let keyFile = try await passwordTest.flatMap({ try? KeyFile($0) }),
            keyFile.epoch == epoch
        else { return }
        try await replacement.replaceSalt(SaltFile(for: keyFile).bytes, hierarchy)
    }

    private var changed: StoreSyncError {
        StoreSyncError(
            .applicationChanged,
            """
            \(request.application) has changed: another device has just created or replaced it. Nothing of it was \
            changed from here. Check the state again, then give the application's current passcode.
            """
        )
    }
}
