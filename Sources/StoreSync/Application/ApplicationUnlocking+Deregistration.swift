import Foundation
import Operations
import RemoteStorage
import SyncCryptography

// Devices that are no longer registered.
extension ApplicationUnlocking {
    /// Returns the error for an application that was replaced, which says whether a device with the former keys did it.
    func newEpoch(
        _ registration: StoredRegistration?,
        after pin: ApplicationPin,
        _ context: OperationContext
    ) async throws -> StoreSyncError {
        let isProven = try await provesSuccessor(registration, pin, context)
        let doubt = """
            , and nothing proves that a device with its keys did it. A user who had lost them may have done it, or an \
            attacker: find out which before you give a password
            """
        // An application that wasn't encrypted had no keys.
        let proof = !pin.isEncrypted ? "" : isProven ? ", by a device that had its keys" : doubt
        var error = StoreSyncError.deregistered("the application was replaced by a new one\(proof)")
        error.isSuccessorProven = isProven
        await state.deregistrations.tell(error, of: key)
        return error
    }

    /// Refuses to continue if an authentic note says that this client was removed from the application.
    func refuseRemovedClient(_ seal: ApplicationSeal, _ context: OperationContext) async throws {
        let client = try await context.blocking { [state, key] in try state.peekClientIdentifier(for: key) }
        guard let client else { return }
        let notes = ClientNotes(subject: .application(hierarchy), seal: seal, hooks: hooks)
        guard try await notes.read(on: RemoteIdentifier(client)).notes.isEmpty else { throw await removedClient() }
    }

    /// Returns the error for a client that was removed.
    func removedClient() async -> StoreSyncError {
        let error = StoreSyncError.deregistered("this client was removed from the application")
        await state.deregistrations.tell(error, of: key)
        return error
    }

    private func provesSuccessor(
        _ registration: StoredRegistration?,
        _ pin: ApplicationPin,
        _ context: OperationContext
    ) async throws -> Bool {
        guard let registration, let epoch = UUID(uuidString: registration.info.epoch), let former = pin.epoch,
            let formerKey = try await keptKey(of: former, context),
            let bytes = try await replacement.fetchSuccessor(of: epoch, hierarchy),
            let proof = try? SuccessorProof(bytes)
        else { return false }
        return proof.epoch == epoch && proof.holds(for: formerKey, registration: registration.bytes)
    }
}
