package import ContentDigests
public import Foundation

/// A master key and its application's epoch, which seal and open files.
///
/// ```swift
/// let key = EpochKey(master: MasterKey(), epoch: UUID())
/// let context = SealedContext(application: "org.example.notes", role: "deviceInfo", client: "laptop")
/// let sealed = try key.seal(Array("my laptop".utf8), as: context)
/// let opened = try key.open(sealed, as: context, upTo: 1 << 20)
/// ```
public struct EpochKey: Sendable, Equatable {
    /// The key.
    public let master: MasterKey
    /// Distinguishes the application from another that was created again under the same name.
    public let epoch: UUID
    /// The epochs of the application that are known to have ended: their files are orphans.
    public let formerEpochs: Set<UUID>

    /// Creates a key of an epoch.
    public init(master: MasterKey, epoch: UUID, formerEpochs: Set<UUID> = []) {
        self.master = master
        self.epoch = epoch
        self.formerEpochs = formerEpochs.subtracting([epoch])
    }

    /// How pages of the application's files are digested.
    package var pageHash: PageHash {
        master.derivedKey(for: "content").withBytes { PageHash(key: $0) }
    }

    /// Refuses a file of another epoch.
    func check(epoch written: UUID) throws(CryptographyError) {
        guard written != epoch else { return }
        guard !formerEpochs.contains(written) else {
            throw CryptographyError(
                .orphan,
                "A sealed file is left over from before the application was created again. It can't be opened, and isn't needed."
            )
        }
        throw CryptographyError(
            .unknownEpoch,
            """
            A sealed file belongs to an epoch of the application that this device doesn't know. The application may have been \
            created again: read its registration again, and set this device up again if the epoch changed.
            """
        )
    }
}
