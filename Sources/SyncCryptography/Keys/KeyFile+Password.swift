import ContentDigests
public import Foundation

extension KeyFile {
    /// Creates the first key file of an application.
    ///
    /// - Parameters:
    ///   - masterKey: The key to wrap.
    ///   - password: The password to wrap it with.
    ///   - epoch: The application's epoch, as in its registration.
    ///   - registration: `Information/registration.plist`, byte for byte as on the remote.
    ///   - parameters: The cost of hashing the password.
    ///   - executor: The executor on which the hash blocks; a dedicated thread if it's `nil`.
    /// - Returns: The key file.
    /// - Throws: What ``PasswordParameters/validate()`` throws, ``CryptographyError/Code/outOfMemory``, or
    ///   `CancellationError` as soon as the task is cancelled.
    public static func create(
        wrapping masterKey: MasterKey,
        with password: Password,
        epoch: UUID,
        registration: [UInt8],
        parameters: PasswordParameters = .moderate,
        executor: (any TaskExecutor)? = nil
    ) async throws -> KeyFile {
        let fields = Fields(
            epoch: epoch,
            registrationDigest: Blake2b.digest(of: registration),
            passwordVersion: 1,
            parameters: parameters
        )
        return try await KeyFile(wrapping: masterKey, with: password, fields, executor: executor)
    }

    /// Wraps a master key with a password.
    private init(
        wrapping masterKey: MasterKey,
        with password: Password,
        _ fields: Fields,
        executor: (any TaskExecutor)?
    ) async throws {
        let key = try await password.key(salt: fields.salt, parameters: fields.parameters, executor: executor)
        self.init(wrapping: masterKey, with: key, fields)
    }

    /// Unwraps the master key with a password.
    ///
    /// - Parameters:
    ///   - password: The password.
    ///   - executor: The executor on which the hash blocks; a dedicated thread if it's `nil`.
    /// - Returns: The master key. The file is then authentic: its writer had the password and the key.
    /// - Throws: What ``PasswordParameters/validate()`` throws, before anything is computed;
    ///   ``CryptographyError/Code/wrongPassword``; ``CryptographyError/Code/tampered``; ``CryptographyError/Code/outOfMemory``; `CancellationError` as soon as the task is cancelled.
    public func open(
        with password: Password,
        executor: (any TaskExecutor)? = nil
    ) async throws -> MasterKey {
        try unwrap(with: await password.key(salt: salt, parameters: parameters, executor: executor))
    }

    /// Creates the key file for another password of the same application.
    ///
    /// The salt is fresh, the version is one more, and the parameters cost at least as much as before. A copy of the old file still
    /// opens with the old password: only a new epoch, with a new key, ends that.
    ///
    /// - Parameters:
    ///   - password: The new password.
    ///   - masterKey: The key that this file wraps.
    ///   - parameters: The minimum cost of hashing the password; the former cost if it's `nil`.
    ///   - executor: The executor on which the hash blocks; a dedicated thread if it's `nil`.
    /// - Returns: The new key file.
    /// - Throws: ``CryptographyError/Code/wrongKey`` if `masterKey` isn't this file's, and what
    ///   ``create(wrapping:with:epoch:registration:parameters:executor:)`` throws.
    public func changingPassword(
        to password: Password,
        masterKey: MasterKey,
        parameters: PasswordParameters? = nil,
        executor: (any TaskExecutor)? = nil
    ) async throws -> KeyFile {
        guard isProven(by: masterKey) else {
            throw CryptographyError(
                .wrongKey,
                "The key file on the remote doesn't hold this device's key. Set this device up again first."
            )
        }
        guard passwordVersion < UInt32.max else {
            throw CryptographyError(
                .unsupportedFormat,
                "The password was changed \(passwordVersion) times, which is the limit. Encrypt the application again, with a new key."
            )
        }
        let fields = Fields(
            epoch: epoch,
            registrationDigest: self.fields.registrationDigest,
            passwordVersion: passwordVersion + 1,
            parameters: parameters?.noWeaker(than: self.parameters) ?? self.parameters
        )
        return try await KeyFile(wrapping: masterKey, with: password, fields, executor: executor)
    }
}
