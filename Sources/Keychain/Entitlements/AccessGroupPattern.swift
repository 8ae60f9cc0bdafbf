/// An access group that an application is entitled to, or a prefix of access groups.
///
/// A provisioning profile gives a team's applications `TEAM.*`, which covers every group that begins with `TEAM.`. That
/// includes the literal group `TEAM.*`, if an item was added to it.
public struct AccessGroupPattern: Hashable, Sendable, CustomStringConvertible {
    /// The pattern as it's written.
    public let description: String

    /// Whether the pattern covers every group with its prefix.
    public var isPrefix: Bool { description.utf8.last == UInt8(ascii: "*") }

    /// Reads a pattern.
    ///
    /// - Parameter text: A group, or a prefix that ends in a dot, followed by a star.
    /// - Throws: ``KeychainError/Code/invalidEntitlements`` if it's empty, too long or has a star elsewhere: a star alone would
    ///   entitle to the groups of every team.
    public init(_ text: String) throws(KeychainError) {
        let stem = text.utf8.last == UInt8(ascii: "*") ? text.utf8.dropLast() : text.utf8[...]
        let isGroup = stem.count == text.utf8.count
        guard !stem.contains(UInt8(ascii: "*")), !stem.contains(0), text.utf8.count <= KeychainLimits.attributeBytes,
            isGroup ? !stem.isEmpty : stem.count > 1 && stem.last == UInt8(ascii: ".")
        else {
            throw KeychainError(
                .invalidEntitlements,
                """
                \(text.prefix(80).debugDescription) isn't an access group. Write a group, or your team's identifier, a dot \
                and a star for all groups of the team.
                """
            )
        }
        description = text
    }

    /// Whether the pattern covers a group.
    public func covers(_ group: String) -> Bool {
        guard isPrefix else { return group.utf8.elementsEqual(description.utf8) }
        let stem = description.utf8.dropLast()
        return group.utf8.count > stem.count && group.utf8.starts(with: stem)
    }
}
