import RemoteStorage
import SyncCryptography

extension KeyFile {
    /// Reads the file, and reports errors in the same way as for other files.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        do {
            try self.init(bytes)
        } catch {
            throw StoreSyncError(error, at: path)
        }
    }
}

extension StoreSyncError {
    /// Translates an error of a seal or a password.
    init(_ error: CryptographyError, at path: RemotePath? = nil) {
        let place = path.map { " (\($0) on the remote)" } ?? ""
        self.init(Self.code(for: error.code), error.message + place, cause: error)
    }

    /// Translates an error of a sealed file of an uploaded store, and says how the upload is repaired.
    init(_ error: CryptographyError, ofStoreFileAt path: RemotePath) {
        self.init(error, at: path)
        if code == .tampered { message = Self.notAsUploaded(path).message }
    }

    /// Returns the error of a manifest, which says how to replace it.
    func explained(asManifestOf name: UploadName, at path: RemotePath) -> StoreSyncError {
        guard [.tampered, .corrupt].contains(code) else { return self }
        return saying(
            """
            \(path) on the remote isn't the manifest that client \(name.client) wrote: it is still arriving, or was changed, \
            exchanged or damaged. If it stays so, push the store with --whole from that client, or from another device that \
            has it. The client's second push from now on removes the damaged file. \(Self.ifTheDocumentSynchronizes)
            """
        )
    }

    /// Returns the error of a document's info, which says how to repair it or to give the document up.
    func explained(asDocumentInfoAt path: RemotePath) -> StoreSyncError {
        switch code {
        case .tampered, .corrupt:
            return saying(
                """
                \(path) on the remote can't be opened: it is still arriving, or was changed, exchanged or damaged. If it stays \
                so, restore it from a backup, or from a device whose copy of the folder still opens. If there is none, remove \
                exactly that file, and give the document up with storesync remove document on a device that has synchronized \
                it: all its uploads and edits on the remote are deleted. Then push a store of it with --recreate.
                """
            )
        case .orphan:
            guard let folder = path.parent else { return self }
            return saying(
                """
                \(path) on the remote belongs to another application of that name: the application was created again, or two \
                devices created it before the folder's files had arrived. Try again. If the error stays, move the folder \
                \(folder) as a whole out of the application's folder, and keep it: the application can't open any file in it.
                """
            )
        default:
            return self
        }
    }

    /// Returns the error of the sealed file that says where a document's change sets begin.
    func explained(asOriginAt path: RemotePath) -> StoreSyncError {
        guard [.tampered, .orphan, .corrupt].contains(code) else { return self }
        return saying(Self.unreadableOrigin(code, at: path).message)
    }

    private func saying(_ message: String) -> StoreSyncError {
        StoreSyncError(code, message, cause: cause)
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
