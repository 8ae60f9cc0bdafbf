import Foundation

extension URL {
    /// The store at a path that a user names.
    ///
    /// - Parameter path: The path.
    /// - Throws: ``UsageError`` if it's empty: Foundation would take it for the current directory.
    init(storeAt path: String) throws {
        guard !path.isEmpty else { throw UsageError("The store's path is empty. Name a file.") }
        self.init(fileURLWithPath: path)
    }
}
