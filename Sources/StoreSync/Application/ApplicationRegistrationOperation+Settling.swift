import Foundation
import RemoteStorage
import ThreadSupport

/// An application that was moved aside.
struct AsideApplication: Sendable {
    var name: AsideName
    /// Its location.
    var hierarchy: ApplicationHierarchy
    var registration: [UInt8]?

    private var epoch: UUID? { ReplacedApplication(registration: registration).epoch(hierarchy) }

    /// Whether it's the application that was to be replaced.
    ///
    /// If not, another device was faster, and its new application was moved aside before this device noticed.
    var isMeant: Bool { epoch == name.epoch }

    /// Whether it's only what other devices wrote to the application's path when the application was aside already.
    var isLate: Bool { registration == nil && name.epoch != nil }

    /// Lists what was moved aside of one application: first the unintended moves, which are the later ones, and last the
    /// late files, which belong to one of the others.
    static func list(
        _ hierarchy: ApplicationHierarchy,
        _ hooks: any ApplicationRegistrationHooks,
        _ replacement: any ApplicationReplacementHooks
    ) async throws -> [AsideApplication] {
        let names = try await replacement.listNamesAside().compactMap(AsideName.init)
            .filter { $0.application == hierarchy.application }
        let all = try await names.concurrentMap { name in
            let aside = try hierarchy.staged(as: name.name)
            return AsideApplication(
                name: name,
                hierarchy: aside,
                registration: try await hooks.fetchRegistration(aside)
            )
        }
        return all.filter { !$0.isMeant && !$0.isLate } + all.filter(\.isMeant) + all.filter(\.isLate)
    }
}

// Finishing or undoing a replacement that was interrupted.
//
// An application that was moved aside is put back if no other has taken its place, and removed otherwise. A device that
// was writing when it was moved aside doesn't notice: its next file creates the directories above it again. Such late
// files are no application, since they have no registration. They are moved to where theirs is.
extension ApplicationRegistrationOperation {
    /// Moves the application that this run moved aside back into place, or removes it if another one exists there.
    func putBack(_ name: AsideName) async throws {
        let old = try hierarchy.staged(as: name.name)
        try await settle(AsideApplication(name: name, hierarchy: old, registration: hooks.fetchRegistration(old)))
    }

    /// Finishes or undoes interrupted replacements of the application, this device's and others'.
    func settleReplacements() async throws {
        for aside in try await AsideApplication.list(hierarchy, hooks, replacement) {
            do {
                try await settle(aside)
            } catch let error as RemoteError where error.code == .notFound {
                // Another device was faster.
            }
        }
    }

    private func settle(_ aside: AsideApplication) async throws {
        if aside.name.isRemoving { return try await remove(aside) }
        for _ in 1...Self.maximumLateWrites {
            if !aside.isLate, try await hooks.publishApplication(stagedAt: aside.hierarchy.root, hierarchy) { return }
            let current = try await hooks.fetchRegistration(hierarchy)
            if current != nil { return try await settle(aside, beside: ReplacedApplication(registration: current)) }
            if aside.isLate { return }
            // Devices that write late have no keys to write: this is a new application that hasn't arrived completely.
            guard try await !EncryptionFiles.fetch(hooks, hierarchy).hasAnyKeyFile else { return }
            let late = try hierarchy.staged(
                as: AsideName(application: request.application, epoch: aside.name.epoch).name
            )
            guard try await replacement.moveApplicationAside(hierarchy, to: late.root) else { continue }
            // Another device has put an application there in the meantime.
            if try await hooks.fetchRegistration(late) != nil {
                _ = try await hooks.publishApplication(stagedAt: late.root, hierarchy)
                continue
            }
            try await replacement.moveLateFiles(from: late, to: aside.hierarchy)
        }
        throw applicationInUse
    }

    /// The error if other devices write to the application's path while it's aside.
    var applicationInUse: StoreSyncError {
        StoreSyncError(
            .busy,
            "Another device is writing to \(request.application), which is being created again. Nothing is lost. Try again."
        )
    }

    private static var maximumLateWrites: Int { 8 }

    /// Removes what was moved aside if it belongs to another epoch than the current application.
    ///
    /// A copy of the current application stays, since either may have files that the other lacks.
    private func settle(_ aside: AsideApplication, beside current: ReplacedApplication) async throws {
        // An application whose registration can't be read may be the same one.
        guard let epoch = current.epoch(hierarchy) else { return }
        if epoch != aside.name.epoch {
            try await remove(aside)
        } else if aside.isLate {
            try await replacement.moveLateFiles(from: aside.hierarchy, to: hierarchy)
        }
    }

    /// Removes an application that was moved aside, if it's the one to be replaced.
    private func remove(_ aside: AsideApplication) async throws {
        guard aside.name.isRemoving || aside.isMeant || aside.isLate else { return }
        let removing = try hierarchy.staged(as: aside.name.removing.name)
        // Renamed first, since a partly removed application must never be put back.
        if !aside.name.isRemoving,
            try await !replacement.moveApplicationAside(aside.hierarchy, to: removing.root)
        {
            return
        }
        try await replacement.removeApplicationAside(at: removing.root)
    }
}
