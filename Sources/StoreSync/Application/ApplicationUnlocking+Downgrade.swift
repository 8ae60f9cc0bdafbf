import RemoteStorage

// Applications that were encrypted when this device last saw them, and now lack a part of their encryption.
extension ApplicationUnlocking {
    /// The files of the encryption that are missing on the remote, the most important one first.
    func missingFiles(_ files: EncryptionFiles) -> [RemotePath] {
        let missing = [
            files.registration == nil ? hierarchy.registration : nil,
            files.passwordTest == nil ? hierarchy.passwordTest : nil,
            files.hasSalt ? nil : hierarchy.salt,
        ]
        return missing.compactMap(\.self)
    }

    /// Returns the error, which says what is missing and what to do about it.
    func downgraded(_ info: RegistrationInfo?, _ files: EncryptionFiles) -> StoreSyncError {
        let application = hierarchy.application
        if let info, !info.isEncrypted {
            return StoreSyncError(
                .encryptionDowngraded,
                """
                \(application) was encrypted when this device last saw it. \(hierarchy.registration) on the remote says now \
                that it isn't. The remote may have been tampered with. Nothing was written. Find out what happened, and \
                restore the file from a backup. If the application was really given up, continue with another state \
                directory (--state).
                """
            )
        }
        let missing = missingFiles(files)
        return StoreSyncError(
            .encryptionDowngraded,
            """
            \(missing.map { "\($0)" }.joined(separator: " and ")) \(missing.count == 1 ? "is" : "are") missing on the remote, \
            but \(application) was encrypted when this device last saw it. The remote may have been tampered with, or is \
            still arriving. Nothing was written. \(remedy(for: missing))
            """
        )
    }

    private func remedy(for missing: [RemotePath]) -> String {
        switch missing {
        case [hierarchy.salt]:
            """
            Try again when everything has arrived. Otherwise restore it from a backup, or register a new device or a new \
            state directory (--state) with the password: that writes it again.
            """
        case [hierarchy.passwordTest]:
            "Try again when everything has arrived. Otherwise restore it from a backup: no other file has the keys."
        case _ where !missing.contains(hierarchy.passwordTest):
            StoreSyncError.remedyForMissingRegistration(hierarchy)
        default:
            """
            Try again when everything has arrived, or restore them from a backup. If the application was removed, run \
            storesync remove application again on the device that removed it. If that device is lost, remove \
            \(hierarchy.root) from the remote, and run storesync register --again.
            """
        }
    }
}
