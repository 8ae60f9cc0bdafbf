public import Foundation

/// What a ``WholeStoreDownloadOperation`` tells its delegate.
public enum StoreReplacementEvent: Sendable, Hashable {
    /// The download is complete and verified, and is about to replace the store: close the store.
    case willReplace(URL)
    /// Follows each ``willReplace(_:)``, also if the download fails or is cancelled: open the store.
    ///
    /// If the store wasn't replaced, it's the former one.
    case didReplace(URL, isReplaced: Bool)
}
