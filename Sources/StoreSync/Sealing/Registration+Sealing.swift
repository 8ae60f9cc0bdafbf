import RemoteStorage
import SyncCryptography

// Sealing for operations of the app, which get a registration but never its keys.

extension ApplicationRegistration {
    /// Seals a small file of the app, if the application is encrypted.
    ///
    /// ```swift
    /// let sealed = registration.seal(settings, as: "settings")
    /// try await backend.write(sealed, to: path, when: .always)
    /// ```
    ///
    /// Every registered device can open it, by the same name: the seal is bound to the application and the name. So a file
    /// that was exchanged for another one doesn't open, and no file of this module can be taken for one of the app's, or the
    /// reverse. An older version of the same file does open. If the application isn't encrypted, the bytes stay as they are.
    ///
    /// - Parameters:
    ///   - bytes: The file's content, which is compressed if that makes it smaller. To open more than 4 MiB, raise the limit of
    ///     ``open(_:as:upTo:)``.
    ///   - name: The file's name, or any other text that tells the app's files apart, byte by byte in UTF-8.
    /// - Returns: The sealed file, which is different each time; `bytes` if the application isn't encrypted.
    public func seal(_ bytes: [UInt8], as name: String) -> [UInt8] {
        seal.seal(bytes, as: .appFile(name, of: nil))
    }

    /// Opens a file that ``seal(_:as:)`` sealed on any device of the application.
    ///
    /// - Parameters:
    ///   - sealed: The sealed file.
    ///   - name: The name that it was sealed with, in the same normalization form: a listing may have it in another one.
    ///   - limit: The maximum size of its content, since compressed bytes can hold a thousand times their number.
    /// - Returns: The file's content; `sealed` if the application isn't encrypted.
    /// - Throws: ``StoreSyncError`` with code `tampered` if it isn't what was sealed with this name or holds more than `limit`
    ///   bytes, `orphan` if it belongs to a former application, or `unsupportedFormat`.
    public func open(
        _ sealed: [UInt8],
        as name: String,
        upTo limit: Int = 4 << 20
    ) throws(StoreSyncError) -> [UInt8] {
        try seal.open(sealed, appFile: name, of: nil, upTo: limit)
    }
}

extension DocumentRegistration {
    /// Seals a small file of the app as ``ApplicationRegistration/seal(_:as:)`` does, bound to this document too.
    ///
    /// It doesn't open as a file of another document, or of a document that was created again under the same name.
    ///
    /// - Parameters:
    ///   - bytes: The file's content.
    ///   - name: The file's name, or any other text that tells the app's files apart, byte by byte in UTF-8.
    /// - Returns: The sealed file; `bytes` if the application isn't encrypted.
    public func seal(_ bytes: [UInt8], as name: String) -> [UInt8] {
        application.seal.seal(bytes, as: .appFile(name, of: identity))
    }

    /// Opens a file that ``seal(_:as:)`` sealed on any device of the document.
    ///
    /// - Parameters:
    ///   - sealed: The sealed file.
    ///   - name: The name that it was sealed with.
    ///   - limit: The maximum size of its content.
    /// - Returns: The file's content; `sealed` if the application isn't encrypted.
    /// - Throws: What ``ApplicationRegistration/open(_:as:upTo:)`` throws.
    public func open(
        _ sealed: [UInt8],
        as name: String,
        upTo limit: Int = 4 << 20
    ) throws(StoreSyncError) -> [UInt8] {
        try application.seal.open(sealed, appFile: name, of: identity, upTo: limit)
    }
}

extension ApplicationSeal {
    fileprivate func open(
        _ sealed: [UInt8],
        appFile name: String,
        of document: DocumentIdentity?,
        upTo limit: Int
    ) throws(StoreSyncError) -> [UInt8] {
        guard let key else { return sealed }
        guard EpochKey.isSealed(sealed) else {
            throw StoreSyncError(
                .tampered,
                "The file \(name) isn't sealed, but every file of \(application) must be. Get it again, or restore it from a backup."
            )
        }
        do {
            return try key.open(sealed, as: context(.appFile(name, of: document)), upTo: limit)
        } catch {
            var error = StoreSyncError(error)
            error.message = "The file \(name) of \(application) doesn't open: \(error.message)"
            throw error
        }
    }
}
