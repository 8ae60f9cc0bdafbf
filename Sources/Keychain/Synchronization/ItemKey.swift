/// The attributes of a stored item, compared byte by byte as in the database, where Swift compares characters.
struct ItemKey: Hashable, Sendable, Comparable {
    let service: String
    let account: String
    let accessGroup: String

    /// Checks attributes, which may be untrusted.
    init(service: String, account: String, accessGroup: String) throws(KeychainError) {
        for (name, text) in [("service", service), ("account", account), ("access group", accessGroup)] {
            guard text.utf8.count <= KeychainLimits.attributeBytes, !text.utf8.contains(0) else {
                throw KeychainError(
                    .invalidItem,
                    "The \(name) of a keychain item has a NUL character or more than \(KeychainLimits.attributeBytes) bytes. Shorten it."
                )
            }
        }
        guard !service.isEmpty, !accessGroup.isEmpty else {
            throw KeychainError(.invalidItem, "A keychain item needs a service and an access group. Name both.")
        }
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
    }

    /// The item's attributes.
    func item(isSynchronizable: Bool) -> KeychainItem {
        KeychainItem(
            service: service,
            account: account,
            accessGroup: accessGroup,
            isSynchronizable: isSynchronizable
        )
    }

    private var parts: [String] { [accessGroup, service, account] }

    static func == (left: ItemKey, right: ItemKey) -> Bool {
        zip(left.parts, right.parts).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
    }

    static func < (left: ItemKey, right: ItemKey) -> Bool {
        for (left, right) in zip(left.parts, right.parts) where !left.utf8.elementsEqual(right.utf8) {
            return left.utf8.lexicographicallyPrecedes(right.utf8)
        }
        return false
    }

    func hash(into hasher: inout Hasher) {
        for part in parts {
            hasher.combine(part.utf8.count)
            for byte in part.utf8 { hasher.combine(byte) }
        }
    }
}
