package import ContentDigests
public import Foundation

/// A master key and its application's epoch, which seal and open files.
///
/// ```swift
/// let key = EpochKey(master: MasterKey(), epoch: UUID())
/// let context = SealedContext(application: "org.example.notes", role: "deviceInfo", client: "laptop")
/// let sealed = key.seal(Array("my laptop".utf8), as: context)
/// let opened = try key.open(sealed, as: context, upTo: 1 << 20)
/// ```
public struct EpochKey: Sendable, Equatable {
    /// The key.
    public let master: MasterKey
    /// Distinguishes the application from another that was created again under the same name.
    public let epoch: UUID

    /// Creates a key of an epoch.
    public init(master: MasterKey, epoch: UUID) {
        self.master = master
        self.epoch = epoch
    }

    /// How pages of the application's files are digested.
    package var pageHash: PageHash {
        master.derivedKey(for: "content").withBytes { PageHash(key: $0) }
    }

    /// Refuses a file of another epoch.
    func check(epoch written: UUID) throws(CryptographyError) {
        guard written != epoch else { return }
        throw CryptographyError(
            .otherEpoch,
            """
            A sealed file belongs to another epoch of the application: it's left over from before the application was created \
            again, the application has just been created again, or the file's header is damaged. Try again. If the error stays, \
            move the file out of the application's folder: one from before isn't needed.
            """
        )
    }
}
