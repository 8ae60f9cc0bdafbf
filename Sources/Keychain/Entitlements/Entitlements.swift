public import Foundation

/// The entitlements of an application: the access groups that it may use.
///
/// On Apple's systems the code signature proves entitlements. Elsewhere nothing proves them: the application declares them, so
/// that two applications of one user don't interfere by mistake. See <doc:WhatAKeychainProtects>.
public struct Entitlements: Hashable, Sendable {
    /// `application-identifier`: the team's identifier, a dot and the bundle identifier.
    public var applicationIdentifier: AccessGroupPattern?
    /// `keychain-access-groups`: the groups, in order.
    public var keychainAccessGroups: [AccessGroupPattern]
    /// `get-task-allow`: whether a debugger may attach, which this module ignores.
    public var allowsDebugging: Bool
    /// `com.apple.developer.default-data-protection`: the class of data protection, which this module ignores.
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

    /// The group of items that are added without a group: the first entry that isn't a pattern.
    public var defaultAccessGroup: String? {
        patterns.first { !$0.isPrefix }?.description
    }

    /// Whether the application is entitled to a group.
    public func covers(_ group: String) -> Bool {
        patterns.contains { $0.covers(group) }
    }

    /// All entries; the application's own group is the last, as in Apple's list.
    private var patterns: [AccessGroupPattern] {
        keychainAccessGroups + [applicationIdentifier].compactMap(\.self)
    }

    /// Returns the location of an entitlements file, from Xcode's build setting `CODE_SIGN_ENTITLEMENTS`.
    ///
    /// - Parameters:
    ///   - setting: A path in the source root, `$(TARGET_NAME)/Entitlements.plist` for example.
    ///   - sourceRoot: The value of `$(SRCROOT)`.
    ///   - targetName: The value of `$(TARGET_NAME)`.
    /// - Returns: The file.
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
