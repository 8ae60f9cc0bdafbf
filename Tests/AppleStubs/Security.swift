// Security.framework's item calls, with items in memory. Core Foundation's types are Swift's.
public import FoundationOfDarwin
@_exported public import SecurityDeclarations

/// Text.
public typealias CFString = String
/// Attributes by their names.
public typealias CFDictionary = [String: Any]

/// An item that was added.
private struct Item {
    var attributes: [String: String]
    var isSynchronizable: Bool
    var data: Data

    var key: [String] {
        [kSecAttrService, kSecAttrAccount, kSecAttrAccessGroup].map { attributes[$0] ?? "" } + ["\(isSynchronizable)"]
    }

    /// What a search returns.
    var description: [String: Any] {
        var description: [String: Any] = attributes
        if isSynchronizable { description[kSecAttrSynchronizable] = true }
        return description
    }

    func matches(_ query: [String: Any]) -> Bool {
        let searched = [kSecAttrService, kSecAttrAccount, kSecAttrAccessGroup]
        guard searched.allSatisfy({ query[$0] == nil || query[$0] as? String == attributes[$0] }) else { return false }
        switch query[kSecAttrSynchronizable] {
        case let text as String where text == kSecAttrSynchronizableAny: return true
        case let flag as Bool: return flag == isSynchronizable
        default: return !isSynchronizable
        }
    }
}

// Not concurrent: the suite makes one call at a time.
nonisolated(unsafe) private var items: [Item] = []
private let groups = ["TEAM.org.example.notes", "TEAM.org.example.notes.other"]

private func refusal(_ query: CFDictionary) -> OSStatus? {
    guard query[kSecClass] as? String == kSecClassGenericPassword, query[kSecUseDataProtectionKeychain] as? Bool == true
    else { return errSecParam }
    guard isEntitled else { return errSecMissingEntitlement }
    guard let group = query[kSecAttrAccessGroup] as? String, !groups.contains(group) else { return nil }
    return errSecMissingEntitlement
}

/// Adds an item.
public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    if let refusal = refusal(attributes) { return refusal }
    let isSynchronizable = attributes[kSecAttrSynchronizable] as? Bool ?? false
    let accessible = attributes[kSecAttrAccessible] as? String
    // The real keychain refuses what may be on one device only and on others too.
    if isSynchronizable, accessible == kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly { return errSecParam }
    var item = Item(
        attributes: [:],
        isSynchronizable: isSynchronizable,
        data: attributes[kSecValueData] as? Data ?? Data()
    )
    for name in [kSecAttrService, kSecAttrAccount, kSecAttrAccessGroup, kSecAttrAccessible] {
        item.attributes[name] = attributes[name] as? String
    }
    item.attributes[kSecAttrAccessGroup] = item.attributes[kSecAttrAccessGroup] ?? groups[0]
    guard !items.contains(where: { $0.key == item.key }) else { return errSecDuplicateItem }
    items.append(item)
    result?.pointee = item.description
    return errSecSuccess
}

/// Finds items.
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    if let refusal = refusal(query) { return refusal }
    let found = items.filter { $0.matches(query) }
    guard let first = found.first else { return errSecItemNotFound }
    if query[kSecReturnData] as? Bool == true {
        // As macOS does: no data of several items at once.
        guard query[kSecMatchLimit] == nil else { return errSecParam }
        result?.pointee = first.data
    } else if query[kSecMatchLimit] as? String == kSecMatchLimitAll {
        result?.pointee = found.reversed().map(\.description)
        vanish?()
    } else {
        result?.pointee = first.description
    }
    return errSecSuccess
}

/// Called after each list of items, where another process may change them.
nonisolated(unsafe) public var vanish: (() -> Void)?

/// Whether the program is signed with entitlements.
nonisolated(unsafe) public var isEntitled = true

/// Deletes an item, as another process may.
public func deleteItem(_ service: String, _ account: String) {
    items.removeAll { $0.attributes[kSecAttrService] == service && $0.attributes[kSecAttrAccount] == account }
}

/// When an item can be read, and whether it leaves the device.
public func protection(_ service: String, _ isSynchronizable: Bool) -> String? {
    items.first { $0.attributes[kSecAttrService] == service && $0.isSynchronizable == isSynchronizable }?
        .attributes[kSecAttrAccessible]
}

/// Changes the secrets of items.
public func SecItemUpdate(_ query: CFDictionary, _ change: CFDictionary) -> OSStatus {
    if let refusal = refusal(query) { return refusal }
    let indices = items.indices.filter { items[$0].matches(query) }
    for index in indices { items[index].data = change[kSecValueData] as? Data ?? Data() }
    return indices.isEmpty ? errSecItemNotFound : errSecSuccess
}

/// Deletes items.
public func SecItemDelete(_ query: CFDictionary) -> OSStatus {
    if let refusal = refusal(query) { return refusal }
    let count = items.count
    items.removeAll { $0.matches(query) }
    return items.count == count ? errSecItemNotFound : errSecSuccess
}

/// Returns a status in words.
public func SecCopyErrorMessageString(_ status: OSStatus, _ reserved: UnsafeMutableRawPointer?) -> CFString? {
    "status \(status)"
}
