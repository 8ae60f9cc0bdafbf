import Foundation
import RemoteStorage

extension DocumentRegistration {
    /// Records that a client pushes, pulls or synchronizes the document.
    ///
    /// A failure is only a warning, since lists of clients are all that needs the record. On a storage that doesn't
    /// permit writing, there is none.
    ///
    /// - Returns: Warnings.
    func recordSync(
        of client: RemoteIdentifier,
        at time: Date,
        _ hooks: any RecentSyncHooks
    ) async -> [String] {
        let role = ApplicationSeal.Role.recentSync(client, of: identity)
        do {
            let sealed = application.seal.seal(RecentSync(time).xml, as: role)
            try await hooks.saveRecentSync(sealed, of: client, hierarchy)
        } catch is CancellationError {
            return []
        } catch let error as RemoteError where [.notAllowed, .unauthorized].contains(error.code) {
            return []
        } catch {
            return [
                """
                \(hierarchy.recentSync(client)) on the remote wasn't written, so lists show an older time. \
                \(StoreSyncError.sentence(about: error))
                """
            ]
        }
        return []
    }
}
