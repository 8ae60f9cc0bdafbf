import ContentDigests
import Foundation

/// The content of the local store at one moment.
struct LocalContent: Sendable {
    let root: ContentRoot
    /// A copy of the store, if one had to be made to read it.
    var copy: URL?
}
