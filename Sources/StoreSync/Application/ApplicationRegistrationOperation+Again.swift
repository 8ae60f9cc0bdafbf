import Operations
import SyncCryptography

// Setting up a device again that was deregistered.
extension ApplicationRegistrationOperation {
    /// Decides whether this device is set up again, if the request asks for that.
    ///
    /// A device that is still registered stays as it is: setting it up again would empty its keychain and leave a client
    /// that no device uses.
    func decideWhetherAgainApplies(
        _ remote: inout RemoteState,
        _ pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws {
        guard request.registersAgain else { return }
        if !request.isSetup, try await isRegistered(remote, pin, context) {
            request.registersAgain = false
            remote.warnings.append("This device is still registered, so it wasn't set up again.")
        } else {
            // They are about the former client.
            (remote.deviceInfo, remote.removalNotes) = (nil, [])
        }
    }

    /// Whether this device is a client of the application, as far as its keys can tell.
    private func isRegistered(
        _ remote: RemoteState,
        _ pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws -> Bool {
        guard let pin, remote.deviceInfo != nil else { return false }
        var epochKey: EpochKey?
        switch remote.found {
        case .nothing, .empty: return false
        case .legacy: guard pin.epoch == nil else { return false }
        case .registered(let registration):
            guard pin.epoch == registration.info.epoch else { return false }
            if registration.info.isEncrypted {
                epochKey = try await unlocking.keptKey(of: registration.info.epoch, context)
                guard epochKey != nil else { return false }
            }
        }
        let seal = ApplicationSeal(application: request.application, key: epochKey)
        let notes = ClientNotes(subject: .application(hierarchy), seal: seal, hooks: hooks)
        return notes.authentic(remote.removalNotes).notes.isEmpty
    }
}
