import SyncCryptography

/// Whether and how hard a store is compressed before it's encrypted; a store that isn't encrypted isn't compressed.
///
/// Whatever the choice, every device reads it. A part that doesn't become smaller is stored as it is.
public enum StoreCompression: Hashable, Sendable, CaseIterable {
    /// None: the sizes of files tell only the sizes of stores.
    case off
    /// The least processor time: zstd's level 1.
    case fast
    /// zstd's level 2, and up to 6 while the upload waits for the storage.
    case automatic
    /// The smallest files: zstd's level 6, which takes three to four times the processor time of ``fast``.
    case strong

    var ofSealing: SealingOptions.Compression {
        switch self {
        case .off: .stored
        case .fast: .zstd(level: 1)
        case .automatic: .adaptive
        case .strong: .zstd(level: 6)
        }
    }
}
