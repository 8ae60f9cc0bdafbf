import RemoteStorage

extension StoreSyncError {
    /// What to do about an application whose registration isn't on the remote.
    static func remedyForMissingRegistration(_ hierarchy: ApplicationHierarchy) -> String {
        """
        Try again when everything has arrived. If \(hierarchy.registration) stays missing, restore it from a backup of the \
        remote. If there is none, move \(hierarchy.root) on the remote to another directory, run storesync register --again \
        on a device that has the stores, and push or synchronize copies of them.
        """
    }
}
