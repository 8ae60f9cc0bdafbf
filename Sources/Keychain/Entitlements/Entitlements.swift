public import Foundation

/// What an application may do, as its entitlements file says: here, which access groups are its own.
///
/// On Apple's systems the code signature proves entitlements. Elsewhere nothing does: they are what the application says of
/// itself, so that two applications of one user keep out of each other's way; see <doc:WhatAKeychainProtects>.
public struct Entitlements: Hashable, Sendable {
    /// `application-identifier`: the team's identifier, a dot and the bundle identifier.
    public var applicationIdentifier: AccessGroupPattern?
    /// `keychain-access-groups`: the groups, in order.
    public var keychainAccessGroups: [AccessGroupPattern]
    /// `get-task-allow`: whether a debugger may attach; nothing in here follows from it.
    public var allowsDebugging: Bool
    /// `com.apple.developer.default-data-protection`: the class of data protection; nothing in here follows from it.
    public var defaultDataProtection: String?

    /// Creates entitlements.
    public init(
        applicationIdentifier: AccessGroupPattern?,
        keychainAccessGroups: [AccessGroupPattern] = [],
        allowsDebugging: Bool = false,
        defaultDataProtection: String? = nil
    ) {
        self.applicationIdentifier = applicationIdentifier
        self.keychainAccessGroups = keychainAccessGroups
        self.allowsDebugging = allowsDebugging
        self.defaultDataProtection = defaultDataProtection
    }

    /// The group of items that are added without one: the first that is no pattern.
    public var defaultAccessGroup: String? {
        patterns.first { !$0.isPrefix }?.description
    }

    /// Whether the application is entitled to a group.
    public func covers(_ group: String) -> Bool {
        patterns.contains { $0.covers(group) }
    }

    /// The application's own group is the last, as in Apple's list.
    private var patterns: [AccessGroupPattern] {
        keychainAccessGroups + [applicationIdentifier].compactMap(\.self)
    }

    /// Where an entitlements file is, by Xcode's build setting `CODE_SIGN_ENTITLEMENTS`.
    ///
    /// - Parameters:
    ///   - setting: A path in the source root, `$(TARGET_NAME)/Entitlements.plist` for example.
    ///   - sourceRoot: What `$(SRCROOT)` stands for.
    ///   - targetName: What `$(TARGET_NAME)` stands for.
    /// - Returns: The file's place.
    /// - Throws: ``KeychainError/Code/invalidEntitlements`` if the setting has another variable.
    public static func location(
        setting: String,
        sourceRoot: URL,
        targetName: String
    ) throws(KeychainError) -> URL {
        let path = setting.replacingOccurrences(of: "$(SRCROOT)", with: sourceRoot.path)
            .replacingOccurrences(of: "$(TARGET_NAME)", with: targetName)
        guard !path.contains("$(") else {
            throw KeychainError(
                .invalidEntitlements,
                "\(setting) holds a variable other than $(SRCROOT) and $(TARGET_NAME). Write the path without it."
            )
        }
        return path.hasPrefix("/") ? URL(fileURLWithPath: path) : sourceRoot.appending(path: path)
    }
}
