import Operations
import SyncCryptography

// Setting up a device again that was deregistered.
extension ApplicationRegistrationOperation {
    /// Decides whether this device is set up again, if the request asks for that.
    ///
    /// A device that is still registered stays as it is: setting it up again would empty its keychain and leave a client
    /// that no device uses.
    func resolveRegistersAgain(
        _ remote: inout RemoteState,
        _ pin: ApplicationPin?,
        _ context: OperationContext
    ) async throws {
        guard request.registersAgain else { return }
        guard !request.isSetup, mayBeRegistered(remote, pin) else { return forgetFormerClient(&remote) }
        var epochKey: EpochKey?
        if case .registered(let registration) = remote.found, registration.info.isEncrypted {
            epochKey = try await unlocking.keptKey(of: registration.info.epoch, context)
            // This device has lost its keys. `open` decides when the password has opened the application.
            guard epochKey != nil else { return }
        }
        resolveRegistersAgain(&remote, ApplicationSeal(application: request.application, key: epochKey))
    }

    /// Decides the same for a device that may still be registered, by the notes on its removal.
    func resolveRegistersAgain(_ remote: inout RemoteState, _ seal: ApplicationSeal) {
        guard request.registersAgain, remote.deviceInfo != nil else { return }
        let notes = ClientNotes(subject: .application(hierarchy), seal: seal, hooks: hooks)
        guard notes.authentic(remote.removalNotes).notes.isEmpty else { return forgetFormerClient(&remote) }
        request.registersAgain = false
        remote.warnings.append("This device is still registered, so it wasn't set up again.")
    }

    /// Forgets what is about the former client.
    private func forgetFormerClient(_ remote: inout RemoteState) {
        (remote.deviceInfo, remote.removalNotes) = (nil, [])
    }

    /// Whether this device is a client of the application, unless it was removed.
    private func mayBeRegistered(_ remote: RemoteState, _ pin: ApplicationPin?) -> Bool {
        guard let pin, remote.deviceInfo != nil else { return false }
        return switch remote.found {
        case .nothing, .empty: false
        case .legacy: pin.epoch == nil
        case .registered(let registration): pin.epoch == registration.info.epoch
        }
    }
}
