public import Foundation
public import SyncCryptography

/// What opens a keychain's file: a secret of this device, or a passphrase.
///
/// <doc:WhatAKeychainProtects> says what each protects against, and what not.
public struct KeychainLock: Sendable {
    /// The kinds of locks there are.
    public enum Kind: String, Hashable, Sendable {
        /// A file on this device that only its owner can read.
        case deviceSecret
        /// What a person knows.
        case passphrase
    }

    enum Content: Sendable {
        case deviceSecret(URL)
        case passphrase(Password, PasswordParameters)
    }

    let content: Content

    /// Which kind it is.
    public var kind: Kind {
        switch content {
        case .deviceSecret: .deviceSecret
        case .passphrase: .passphrase
        }
    }

    /// 32 random bytes in a file of mode 0600, made when they're first needed.
    ///
    /// - Parameter directory: Where the file `keychain-secret` is: a directory that exists, that only its owner may enter,
    ///   and better not the one that the keychain is in, for whoever copies both has both.
    /// - Returns: The lock.
    public static func deviceSecret(in directory: URL) -> KeychainLock {
        KeychainLock(content: .deviceSecret(directory))
    }

    /// A passphrase, hashed by Argon2id.
    ///
    /// - Parameters:
    ///   - passphrase: The passphrase.
    ///   - parameters: What the hash costs when the keychain is locked with it; a keychain that has one keeps its own.
    /// - Returns: The lock.
    public static func passphrase(
        _ passphrase: Password,
        parameters: PasswordParameters = .moderate
    ) -> KeychainLock {
        KeychainLock(content: .passphrase(passphrase, parameters))
    }
}
