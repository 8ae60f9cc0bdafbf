import Foundation
import StoreSync

extension URL {
    /// The store at a path that a user names.
    ///
    /// - Parameter path: The path.
    /// - Throws: ``UsageError`` if it's empty, which Foundation would take for the current directory; ``StoreSyncError`` if it
    ///   ends with a slash, which Foundation would remove.
    init(storeAt path: String) throws {
        guard !path.isEmpty else { throw UsageError("The store's path is empty. Name a file.") }
        guard !path.hasSuffix("/") else {
            throw StoreSyncError(.storeNotFound, "\(path) names a directory, not a store. Name a file.")
        }
        self.init(named: path)
    }
}
