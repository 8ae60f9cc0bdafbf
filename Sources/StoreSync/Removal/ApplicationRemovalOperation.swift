import Foundation
public import Operations
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// Removes all data of an application from the remote, and this device's memory of it.
///
/// The operation first saves a note on each document's deletion, sealed if the application is encrypted, so that devices
/// that are working are told. Then it removes documents, clients and notes, and last the encryption files and the
/// registration: what is left at any time is recognized as encrypted. If the operation ends in between, this device
/// remembers that, and running it again completes it. Another device may remove the application too, and then create it
/// again. So the registration is read before each step, and the operation stops when it's of another epoch.
///
/// ```swift
/// let removal = try await supervisor.add(ApplicationRemovalOperation(access)).value
/// ```
///
/// Afterwards this device has neither the application's keys nor the items of its keychain, nor what merging overwrote.
/// Local stores stay as they are.
public actor ApplicationRemovalOperation: Operation {
    private let access: ApplicationAccess
    private let registration: any ApplicationRegistrationHooks
    private let documents: any DocumentRegistrationHooks
    private let removal: any ApplicationRemovalHooks
    private let documentRemoval: any DocumentRemovalHooks
    private let replacement: any ApplicationReplacementHooks
    /// The removal as it was begun: an attempt that is repeated removes no application that was created since.
    private var begun: Begun?

    /// Creates an operation.
    ///
    /// - Parameter access: The application to remove.
    public init(_ access: ApplicationAccess) {
        self.access = access
        registration = access.backend.applicationRegistrationHooks
        documents = access.backend.documentRegistrationHooks
        removal = access.backend.applicationRemovalHooks
        documentRemoval = access.backend.documentRemovalHooks
        replacement = access.backend.applicationReplacementHooks
    }

    private var hierarchy: ApplicationHierarchy { access.hierarchy }

    /// Removes the application.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing`, `passwordRequired`, `deregistered` and `busy`;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> ApplicationRemoval {
        try await translatingErrors {
            let lock = try await access.state.lock(.application(access.key), .exclusive, for: context)
            defer { lock.release() }
            let begun = try await context.blocking { [access] in try access.state.begunRemoval(for: access.key) }
            guard try await registration.applicationDirectoryExists(hierarchy) else {
                guard let begun, begun.isLastStep == true else { throw access.missing }
                return try await finish(begun, [], context)
            }
            let current = if let begun = self.begun { begun } else { try await begin(begun, context) }
            self.begun = current
            let listed = try await documents.listDocuments(hierarchy)
            if let seal = current.seal {
                try await announce(listed, seal)
                // A resumed removal has no proof that this device may remove applications of other epochs.
                for name in try await replacement.listNamesAside().compactMap(AsideName.init)
                where name.application == access.application {
                    try await replacement.removeApplicationAside(at: hierarchy.staged(as: name.name).root)
                }
            }
            context.reportProgress(0.3)
            let removed = try await listed.concurrentMap { [self] document in
                guard try await isCurrent(current.removal) else { return RemoteIdentifier?.none }
                try await documentRemoval.removeDocumentStructure(hierarchy.document(document))
                return document
            }.compactMap(\.self)
            context.reportProgress(0.6)
            let isRemoved = try await removeRest(of: current, context)
            var result = try await finish(current.removal, removed, context)
            if !isRemoved {
                result.warnings.append(
                    """
                    Another device has created \(access.application) again meanwhile. That new application stays. If it lacks \
                    files that this removal took at that moment, storesync verify names them.
                    """
                )
            }
            return result
        }
    }

    /// An application whose removal this device has begun, as it was then.
    private struct Begun {
        let removal: BegunRemoval
        /// The seal of the application's files, if it can be opened.
        let seal: ApplicationSeal?
        /// The file that passwords are tested with, if it was there.
        let passwordTest: [UInt8]?
    }

    /// Removes all but the documents.
    ///
    /// - Returns: `false` if another device has created the application again meanwhile.
    private func removeRest(of begun: Begun, _ context: OperationContext) async throws -> Bool {
        let content = try await removal.listApplicationContent(hierarchy)
        guard try await isCurrent(begun.removal) else { return false }
        try await removal.removeApplicationContent(content)
        guard try await isCurrent(begun.removal) else { return false }
        try await removal.removeEncryptionFiles(hierarchy)
        let last = BegunRemoval(epoch: begun.removal.epoch, isLastStep: true)
        try await context.blocking { [access] in try access.state.noteRemoval(last, for: access.key) }
        guard try await isCurrent(begun.removal) else { return false }
        // Where applications are created file by file, a device may have completed what looked like an interrupted creation:
        // the application has other keys then, and the epoch of the registration that was left.
        let passwordTest = try await registration.fetchPasswordTest(hierarchy)
        guard passwordTest == nil || passwordTest == begun.passwordTest else { return false }
        try await removal.removeApplicationDirectory(hierarchy)
        return true
    }

    /// Whether the application is still the one whose removal has begun, or what is left of it.
    private func isCurrent(_ begun: BegunRemoval) async throws -> Bool {
        guard let bytes = try await registration.fetchRegistration(hierarchy) else { return true }
        let info = try? RegistrationInfo(bytes, at: hierarchy.registration)
        return info?.epoch == begun.epoch
    }

    /// Records the removal, after a check that this device may remove the application.
    ///
    /// An application that this device has begun to remove may lack its keys by now, so it can't be opened any more.
    private func begin(_ begun: BegunRemoval?, _ context: OperationContext) async throws -> Begun {
        let files = try await EncryptionFiles.fetch(registration, hierarchy)
        let info = files.registration.flatMap { try? RegistrationInfo($0, at: hierarchy.registration) }
        let isComplete = info.map { !$0.isEncrypted || files.hasAllKeyFiles } ?? false
        if let begun, !isComplete, try await isRemainder(of: begun, info, files) {
            return Begun(removal: begun, seal: nil, passwordTest: files.passwordTest)
        }
        let seal = try await access.sealForRemoval(context)
        let begun = BegunRemoval(epoch: info?.epoch)
        try await context.blocking { [access] in try access.state.noteRemoval(begun, for: access.key) }
        return Begun(removal: begun, seal: seal, passwordTest: files.passwordTest)
    }

    /// Whether an application that isn't complete is left from the removal that this device has begun.
    ///
    /// Without a registration it may be another application that is still arriving.
    private func isRemainder(
        of begun: BegunRemoval,
        _ info: RegistrationInfo?,
        _ files: EncryptionFiles
    ) async throws -> Bool {
        if let info { return info.epoch == begun.epoch }
        let epoch = begun.epoch.flatMap { UUID(uuidString: $0) }
        if let passwordTest = files.passwordTest {
            guard let keyFile = try? KeyFile(passwordTest), keyFile.epoch == epoch else { return false }
        }
        if files.hasSalt, let salt = try await registration.fetchSalt(hierarchy) {
            guard let file = try? SaltFile(salt), file.epoch == epoch else { return false }
        }
        let infos = try await registration.listClients(hierarchy).concurrentMap { [registration, hierarchy] in
            try await registration.fetchDeviceInfo(of: $0, hierarchy)
        }
        return infos.compactMap { $0.flatMap(EpochKey.epoch(ofSealed:)) }.allSatisfy { $0 == epoch }
    }

    /// Saves a note on the deletion of each document whose info can be read.
    private func announce(_ documents: [RemoteIdentifier], _ seal: ApplicationSeal) async throws {
        let notes = DeletedDocumentNotes(hierarchy: hierarchy, seal: seal, backend: access.backend)
        try await documents.concurrentMap { [documents = self.documents, hierarchy] document in
            let hierarchy = hierarchy.document(document)
            let stored = try await documents.fetchDocumentInfo(hierarchy)
            let info = stored.flatMap { try? seal.documentInfo($0, hierarchy) }
            if let info { try await notes.save(info, of: document) }
        }
    }

    /// Removes what a replacement has moved aside of the application meanwhile, and this device's memory.
    private func finish(
        _ begun: BegunRemoval,
        _ documents: [RemoteIdentifier],
        _ context: OperationContext
    ) async throws -> ApplicationRemoval {
        if let epoch = begun.epoch.flatMap({ UUID(uuidString: $0) }) {
            for aside in try await AsideApplication.list(hierarchy, registration, replacement)
            where aside.name.epoch == epoch && (aside.isMeant || aside.isLate) {
                try await replacement.removeApplicationAside(at: aside.hierarchy.root)
            }
        }
        try await access.state.giveUpKeys(of: access.key, epoch: begun.epoch, on: context.blockingExecutor)
        try await context.blocking { [access] in try access.state.commitRemoval(of: access.key) }
        return ApplicationRemoval(application: access.application, documents: documents)
    }
}
