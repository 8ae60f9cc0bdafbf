/// The names of temporary items, which lists hide.
package enum TemporaryName {
    private static let prefix = ".storesync-"
    private static let suffix = ".tmp"

    /// Returns the temporary name that contains `text`.
    package static func with(_ text: String) -> String { prefix + text + suffix }

    /// Whether a name belongs to a temporary item, which a crash may have left.
    package static func isOne(_ name: String) -> Bool { name.hasPrefix(prefix) && name.hasSuffix(suffix) }
}
