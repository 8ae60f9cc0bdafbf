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

    /// Translates an error of a document's sealed info, and says what helps against one of another application.
    init(_ error: CryptographyError, ofDocumentAt path: RemotePath) {
        self.init(error, at: path)
        guard code == .orphan, let folder = path.parent else { return }
        message = """
            \(path) on the remote belongs to another application of that name: the application was created again, or two devices \
            created it before the folder's files had arrived. Try again. If the error stays, move the folder \(folder) as a \
            whole out of the application's folder, and keep it: the application can't open any file in it.
            """
    }

    /// Translates an error of the sealed file that says where a document's change sets begin.
    init(_ error: CryptographyError, ofOriginAt path: RemotePath) {
        self.init(error, at: path)
        guard [.tampered, .orphan, .corrupt].contains(code) else { return }
        message = Self.unreadableOrigin(code, at: path).message
    }

    /// The error of a file that doesn't say where the document's change sets begin.
    static func unreadableOrigin(_ code: Code, at path: RemotePath) -> StoreSyncError {
        StoreSyncError(
            code,
            """
            \(path) on the remote can't be opened: it is still arriving, was damaged or exchanged, or is another document's. \
            Wait if it may be arriving. If the error stays, remove exactly that file, and synchronize again on a device that has \
            synchronized the document before, which writes it again.
            """
        )
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
