package import Foundation

extension URL {
    /// The file at a path, in which a `~` at the start is part of a name.
    ///
    /// Foundation would expand the `~`, and by the user database. A shell has expanded what its user wanted, and SQLite
    /// expands nothing.
    package init(named path: String, directoryHint: DirectoryHint = .notDirectory) {
        let beginsWithTilde = path.utf8.first == UInt8(ascii: "~")
        self.init(filePath: beginsWithTilde ? "./\(path)" : path, directoryHint: directoryHint)
    }
}
