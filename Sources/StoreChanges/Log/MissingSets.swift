/// Sets have not arrived that every new set of this device must have seen.
///
/// They belong to a prefix that another device has published, which has forgotten how to undo them. Or this client published
/// them before its device was restored from a backup.
///
/// A set that is captured before they arrive would be void, and the device would undo its user's edits. So the edits wait in
/// the store. That happens to a device that has just joined, or was restored, if the storage shows files late.
package struct MissingSets: Error, Hashable {
    /// The clients whose sets are missing, this device's own among them.
    package var clients: Set<ClientID>
}

extension StoreChangesError {
    /// Says what waits, and what to do.
    package init(_ error: MissingSets) {
        let clients = error.clients.map(\.rawValue).sorted().joined(separator: ", ")
        self.init(
            .setsMissing,
            """
            Edits of \(clients) have not arrived here, and other devices have built on them. What was edited on this device \
            stays in its store, and waits until they arrive. Synchronize again later; if they are lost, run storesync vacuum on a \
            device that has the document, and then synchronize here with --rebuild.
            """,
            cause: error
        )
    }
}
