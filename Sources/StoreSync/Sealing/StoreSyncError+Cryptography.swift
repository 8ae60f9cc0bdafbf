import RemoteStorage
import SyncCryptography

extension StoreSyncError {
    /// Translates an error of a seal or a password.
    init(_ error: CryptographyError, at path: RemotePath? = nil) {
        let place = path.map { " (\($0) on the remote)" } ?? ""
        self.init(Self.code(for: error.code), error.message + place, cause: error)
    }

    /// Translates an error of a sealed file of an uploaded store, and says how the upload is repaired.
    init(_ error: CryptographyError, ofStoreFileAt path: RemotePath) {
        self.init(error, at: path)
        guard code == .tampered, error.code != .truncated else { return }
        message = """
            \(path) on the remote isn't what was uploaded: it was changed, exchanged or damaged. Push the store with --whole \
            from a device that has it, or pull another client's with --from.
            """
    }

    /// Translates an error of a sealed manifest, and says how it's replaced.
    init(_ error: CryptographyError, ofManifestOf name: UploadName, at path: RemotePath) {
        self.init(error, at: path)
        guard code == .tampered, error.code != .truncated else { return }
        message = """
            \(path) on the remote isn't the manifest that client \(name.client) wrote: it was changed, exchanged or damaged. \
            Push the store with --whole from that client, or from another device that has it. The client's second push from \
            now on removes the damaged file.
            """
    }

    private static func code(for code: CryptographyError.Code) -> Code {
        switch code {
        case .corrupt: .corrupt
        case .insufficientMemory: .insufficientMemory
        case .invalidPassword: .invalidPassword
        case .otherEpoch: .orphan
        case .outOfMemory: .busy
        case .unsupportedFormat: .unsupportedFormat
        case .weakParameters: .encryptionDowngraded
        case .wrongPassword: .wrongPassword
        default: .tampered
        }
    }
}
