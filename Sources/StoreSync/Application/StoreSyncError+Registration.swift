import RemoteStorage

extension StoreSyncError {
    static func applicationMissing(_ application: RemoteIdentifier, at remote: String) -> StoreSyncError {
        StoreSyncError(.applicationMissing, "There is no application \(application) at \(remote). Check both names.")
    }

    /// The password is needed, and there is no delegate to ask for it.
    static func passwordRequired(_ application: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .passwordRequired,
            "\(application) is encrypted, and this device doesn't have its keys. Give its password."
        )
    }

    static func deregistered(_ reason: String) -> StoreSyncError {
        StoreSyncError(
            .deregistered,
            "This device is no longer registered: \(reason). Set it up again (register --again)."
        )
    }

    /// What to do about an application whose registration isn't on the remote.
    static func remedyForMissingRegistration(_ hierarchy: ApplicationHierarchy) -> String {
        """
        Try again when everything has arrived. If \(hierarchy.registration) stays missing, restore it from a backup of the \
        remote. If there is none, move \(hierarchy.root) on the remote to another directory, run storesync register --again \
        on a device that has the stores, and push or synchronize copies of them.
        """
    }
}
