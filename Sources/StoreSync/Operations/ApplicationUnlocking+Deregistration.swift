import Foundation
import Operations
import SyncCryptography

// A device that isn't registered any more.
extension ApplicationUnlocking {
    /// The application was made anew: the error that says so, and whether somebody did it who had the former one's keys.
    func newEpoch(
        _ info: RegistrationInfo?,
        _ registration: [UInt8]?,
        after pin: ApplicationPin,
        _ context: OperationContext
    ) async throws -> StoreSyncError {
        let isProven = try await provesSuccessor(info, registration, pin, context)
        let doubt = """
            , and nothing proves that a device did it that had its keys. Somebody who had lost them may have done it, or the \
            storage may play tricks: make sure which before you give a password
            """
        // One that wasn't encrypted had no keys.
        let proof = !pin.isEncrypted ? "" : isProven ? ", by a device that had its keys" : doubt
        var error = StoreSyncError.deregistered("the application was made anew\(proof)")
        error.isSuccessorProven = isProven
        await state.deregistrations.tell(error, of: key)
        return error
    }

    /// This client was removed: the error that says so.
    func removedClient() async -> StoreSyncError {
        let error = StoreSyncError.deregistered("this client was removed from the application")
        await state.deregistrations.tell(error, of: key)
        return error
    }

    private func provesSuccessor(
        _ info: RegistrationInfo?,
        _ registration: [UInt8]?,
        _ pin: ApplicationPin,
        _ context: OperationContext
    ) async throws -> Bool {
        guard let registration, let epoch = info.flatMap({ UUID(uuidString: $0.epoch) }), let former = pin.epoch,
            let formerEpoch = UUID(uuidString: former),
            let master = try await state.masterKey(for: key, epoch: former, on: context.blockingExecutor),
            let bytes = try await replacement.fetchSuccessor(of: epoch, hierarchy),
            let proof = try? SuccessorProof(bytes)
        else { return false }
        return proof.epoch == epoch
            && proof.holds(for: EpochKey(master: master, epoch: formerEpoch), registration: registration)
    }
}
