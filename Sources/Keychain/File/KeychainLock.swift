public import Foundation
public import SyncCryptography

/// A lock that opens a keychain's file: a secret of this device, or a passphrase.
///
/// <doc:WhatAKeychainProtects> describes what each lock protects against, and what it doesn't.
public struct KeychainLock: Sendable {
    /// The kinds of locks.
    public enum Kind: String, Hashable, Sendable {
        /// A file on this device that only its owner can read.
        case deviceSecret
        /// A passphrase that a person knows.
        case passphrase
    }

    enum Content: Sendable {
        case deviceSecret(URL)
        case passphrase(Password, PasswordParameters)
    }

    let content: Content

    /// The kind of lock.
    public var kind: Kind {
        switch content {
        case .deviceSecret: .deviceSecret
        case .passphrase: .passphrase
        }
    }

    /// Returns a lock of 32 random bytes in a file of mode 0600, created when it's first needed.
    ///
    /// - Parameter directory: The existing directory of the file `keychain-secret`, which only its owner may enter. Choose another
    ///   directory than the keychain's: a copy of both files can be opened.
    /// - Returns: The lock.
    public static func deviceSecret(in directory: URL) -> KeychainLock {
        KeychainLock(content: .deviceSecret(directory))
    }

    /// Returns a lock of a passphrase that is hashed with Argon2id.
    ///
    /// - Parameters:
    ///   - passphrase: The passphrase.
    ///   - parameters: The cost of the hash of a new lock; a keychain that has a passphrase keeps its parameters.
    /// - Returns: The lock.
    public static func passphrase(
        _ passphrase: Password,
        parameters: PasswordParameters = .moderate
    ) -> KeychainLock {
        KeychainLock(content: .passphrase(passphrase, parameters))
    }
}
