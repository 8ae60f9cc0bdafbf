import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// The application in whose place a new one is made, as it was when that was decided.
struct ReplacedApplication: Sendable, Hashable {
    /// Its registration, byte for byte; `nil` if it had none that can be found.
    var registration: [UInt8]?

    /// Its epoch; `nil` if the registration can't be read.
    func epoch(_ hierarchy: ApplicationHierarchy) -> UUID? {
        registration.flatMap { try? RegistrationInfo($0, at: hierarchy.registration) }
            .flatMap { UUID(uuidString: $0.epoch) }
    }
}

/// An application that was moved aside.
struct AsideApplication: Sendable {
    var name: AsideName
    /// Where it is.
    var hierarchy: ApplicationHierarchy
    var registration: [UInt8]?

    /// Whether it's what was to be replaced.
    ///
    /// If not, a faster device's was moved in the moment before that was found out.
    var isMeant: Bool { ReplacedApplication(registration: registration).epoch(hierarchy) == name.epoch }

    /// Those of one application; first the ones that nobody meant to move, which came after the others.
    static func list(
        _ hierarchy: ApplicationHierarchy,
        _ hooks: any ApplicationRegistrationHooks,
        _ replacement: any ApplicationReplacementHooks
    ) async throws -> [AsideApplication] {
        let names = try await replacement.listNamesAside().compactMap(AsideName.init)
            .filter { $0.application == hierarchy.application }
        let all = try await together(names) { name in
            let aside = try hierarchy.staged(as: name.name)
            return AsideApplication(
                name: name,
                hierarchy: aside,
                registration: try await hooks.fetchRegistration(aside)
            )
        }
        return all.filter { !$0.isMeant } + all.filter(\.isMeant)
    }
}

// An application that is given up for a new one in its place, with another epoch and other keys.
//
// Where directories move exclusively, the new one is put together aside; then the old one is moved aside, the new one to its
// place, and the old one is removed. In between there is none, and whoever comes next puts the old one back.
// Elsewhere the registration is exchanged first, which one device at most can do; then the keys; what is left of the old
// application is removed last.
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
                the one that was read: two devices that begin anew could overwrite each other. Nothing was changed.
                """
            )
        }
        let new = try await newApplication(context)
        let (begun, proof) = try await begin(new, former, context)
        let client = try RemoteIdentifier(begun.client)
        context.reportProgress(0.5)
        if movesDirectories {
            try await replaceByMoving(former, new, client, proof, context)
        } else {
            try await replaceInPlace(former, new, client, proof)
        }
        context.reportProgress(0.8)
        try await context.blocking { [state, key] in try state.commitReplacement(begun, new.pin, for: key) }
        try await remember(new.pin, new.seal, context)
        let registration = registration(of: client, new.seal, didCreate: true)
        try await finishReplacement(registration, context)
        return registration
    }

    /// Notes what is about to be made, so that this device knows it for its own work if it dies, and proves the successor
    /// where it has a former epoch's keys.
    private func begin(
        _ new: NewApplication,
        _ former: ReplacedApplication,
        _ context: OperationContext
    ) async throws -> (BegunReplacement, SuccessorProof?) {
        // Where making it anew was cut off before, the keys that prove it are those of the epoch before that.
        let earlier = try await context.blocking { [state, key] in try state.begunReplacement(for: key) }
        var keys: EpochKey?
        for epoch in [former.epoch(hierarchy)?.uuidString, earlier?.formerEpoch].compactMap({ $0 }) where keys == nil {
            keys = try await state.masterKey(for: key, epoch: epoch, on: context.blockingExecutor)
                .flatMap { master in UUID(uuidString: epoch).map { EpochKey(master: master, epoch: $0) } }
        }
        let begun = BegunReplacement(
            epoch: new.info.epoch,
            client: UUID().uuidString,
            formerEpoch: keys?.epoch.uuidString
        )
        try await context.blocking { [state, key] in try state.noteReplacement(begun, for: key) }
        guard let keys, let epoch = new.seal.key?.epoch else { return (begun, nil) }
        return (begun, SuccessorProof(former: keys, successor: epoch, registration: new.registration))
    }

    /// What has clients and neither registration nor keys isn't ours to delete, or hasn't arrived.
    private func refuseStrangers() async throws {
        let files = try await EncryptionFiles.fetch(hooks, hierarchy)
        guard !files.hasSalt, files.passwordTest == nil, try await !hooks.listClients(hierarchy).isEmpty else { return }
        throw StoreSyncError(
            .applicationIncomplete,
            """
            \(hierarchy.root) on the remote has clients and no registration: it is TICoreDataSync's own, or still arriving. \
            It isn't deleted from here. Remove it by hand if nobody needs it.
            """
        )
    }

    // MARK: By moving directories

    private func replaceByMoving(
        _ former: ReplacedApplication,
        _ new: NewApplication,
        _ client: RemoteIdentifier,
        _ proof: SuccessorProof?,
        _ context: OperationContext
    ) async throws {
        let aside = try await stage(new, client, proof, context)
        let name = AsideName(application: request.application, epoch: former.epoch(hierarchy))
        let old = try hierarchy.staged(as: name.name)
        // Looked at again, since making the keys took its time.
        guard try await hooks.fetchRegistration(hierarchy) == former.registration else { throw changed }
        movedAside = name
        guard try await replacement.moveApplicationAside(hierarchy, to: old.root) else {
            movedAside = nil
            throw changed
        }
        // Another device may have been faster, and its application must not go. What is thrown here puts it back.
        guard try await hooks.fetchRegistration(old) == former.registration else { throw changed }
        guard try await publishStaged(aside, new, context) else { throw changed }
        movedAside = nil
        // From here on nobody puts the old one back, whatever becomes of the new one.
        let removing = try hierarchy.staged(as: name.removing.name)
        _ = try await replacement.moveApplicationAside(old, to: removing.root)
    }

    /// Undoes a replacement of this run: what it moved aside goes back, unless something took its place.
    func putBack(_ name: AsideName) async throws {
        let old = try hierarchy.staged(as: name.name)
        guard try await !hooks.publishApplication(stagedAt: old.root, hierarchy) else { return }
        try await remove(AsideApplication(name: name, hierarchy: old, registration: hooks.fetchRegistration(old)))
    }

    /// Finishes or undoes what a device left that was cut off while it made the application anew: an application that was moved
    /// aside is put back where nothing took its place, and removed where something did.
    func settleReplacements() async throws {
        for aside in try await AsideApplication.list(hierarchy, hooks, replacement) {
            do {
                if !aside.name.isRemoving,
                    try await hooks.publishApplication(stagedAt: aside.hierarchy.root, hierarchy)
                {
                    continue
                }
                try await remove(aside)
            } catch let error as RemoteError where error.code == .notFound {
                // Somebody else was faster.
            }
        }
    }

    /// Removes what was moved aside, if it's what was to be replaced.
    private func remove(_ aside: AsideApplication) async throws {
        guard aside.name.isRemoving || aside.isMeant else { return }
        let removing = try hierarchy.staged(as: aside.name.removing.name)
        // Half of an application is never put back.
        if !aside.name.isRemoving,
            try await !replacement.moveApplicationAside(aside.hierarchy, to: removing.root)
        {
            return
        }
        try await replacement.removeApplicationAside(at: removing.root)
    }

    // MARK: In place

    private func replaceInPlace(
        _ former: ReplacedApplication,
        _ new: NewApplication,
        _ client: RemoteIdentifier,
        _ proof: SuccessorProof?
    ) async throws {
        if let proof { try await replacement.saveSuccessor(proof.bytes, of: proof.epoch, hierarchy) }
        guard try await replacement.replaceRegistration(former.registration, with: new.registration, hierarchy) else {
            if let proof { try await replacement.removeSuccessor(of: proof.epoch, hierarchy) }
            throw changed
        }
        try await replacePasswordTest(new)
        if let keyFile = new.keyFile { try await replacement.replaceSalt(SaltFile(for: keyFile).bytes, hierarchy) }
        guard try await completeInPlace(new, client) else { throw changed }
    }

    /// Puts the keys beside the registration, for as long as that is this one.
    private func replacePasswordTest(_ new: NewApplication) async throws {
        guard let bytes = new.keyFile?.bytes else { return }
        while true {
            // Read before the registration is: so whoever exchanges that later finds out what is written here.
            let former = try await hooks.fetchPasswordTest(hierarchy)
            guard try await hooks.fetchRegistration(hierarchy) == new.registration else { throw changed }
            if former == bytes { return }
            let isWritten =
                if let former { try await hooks.replacePasswordTest(former, with: bytes, hierarchy) } else {
                    try await hooks.createPasswordTest(bytes, hierarchy)
                }
            if isWritten { return }
        }
    }

    // MARK: Finishing

    /// Removes what is left of the former application, by whomever.
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

    /// Puts a copy of the key file's salt in the place of a former application's.
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
            \(request.application) isn't what it was any more: another device has just made it, or made it anew. Nothing of \
            it was changed. Look again, and give the passcode that is its own now.
            """
        )
    }
}
