public import Foundation

extension KeyFile {
    /// Makes the first key file of an application.
    ///
    /// - Parameters:
    ///   - masterKey: The key to wrap.
    ///   - password: The password to wrap it by.
    ///   - epoch: The application's epoch, as its registration has it.
    ///   - registration: `Information/registration.plist`, byte for byte as it stands on the remote.
    ///   - parameters: What hashing the password is to cost.
    ///   - executor: Where the hash blocks; a thread for that purpose where it is `nil`.
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
        try await KeyFile(
            wrapping: masterKey,
            with: password,
            epoch: epoch,
            registrationDigest: Blake2b.digest(of: registration),
            passwordVersion: 1,
            parameters: parameters,
            executor: executor
        )
    }

    /// Wraps a master key by a password, with a fresh salt.
    private init(
        wrapping masterKey: MasterKey,
        with password: Password,
        epoch: UUID,
        registrationDigest: [UInt8],
        passwordVersion: UInt32,
        parameters: PasswordParameters,
        executor: (any TaskExecutor)?
    ) async throws {
        let salt = Sodium.randomBytes(Argon2id.saltBytes)
        let key = try await password.key(salt: salt, parameters: parameters, executor: executor)
        self.init(
            wrapping: masterKey,
            with: key,
            epoch: epoch,
            registrationDigest: registrationDigest,
            passwordVersion: passwordVersion,
            parameters: parameters,
            salt: salt
        )
    }

    /// Takes the master key out by a password.
    ///
    /// - Parameters:
    ///   - password: The password.
    ///   - executor: Where the hash blocks; a thread for that purpose where it is `nil`.
    /// - Returns: The master key. With it the file is authentic: whoever made it had the password and the key.
    /// - Throws: ``CryptographyError/Code/weakParameters`` or ``CryptographyError/Code/costlyParameters`` before anything is
    ///   computed; ``CryptographyError/Code/wrongPassword``; ``CryptographyError/Code/tampered``;
    ///   ``CryptographyError/Code/outOfMemory``; `CancellationError` as soon as the task is cancelled.
    public func open(
        with password: Password,
        executor: (any TaskExecutor)? = nil
    ) async throws -> MasterKey {
        try unwrap(with: await password.key(salt: salt, parameters: parameters, executor: executor))
    }

    /// Makes the key file for another password of the same application.
    ///
    /// The salt is fresh, the version one more, and the parameters cost at least what they did. Whoever kept the old file and
    /// knows the old password can still open that one: only a new epoch takes the key away from them.
    ///
    /// - Parameters:
    ///   - password: The new password.
    ///   - masterKey: The key that this file wraps.
    ///   - parameters: What hashing the password is to cost at least.
    ///   - executor: Where the hash blocks; a thread for that purpose where it is `nil`.
    /// - Returns: The new key file.
    /// - Throws: ``CryptographyError/Code/wrongKey`` if `masterKey` isn't this file's, and what
    ///   ``create(wrapping:with:epoch:registration:parameters:executor:)`` throws.
    public func changingPassword(
        to password: Password,
        masterKey: MasterKey,
        parameters: PasswordParameters = .moderate,
        executor: (any TaskExecutor)? = nil
    ) async throws -> KeyFile {
        guard isProven(by: masterKey) else {
            throw CryptographyError(
                .wrongKey,
                "The key file on the remote wasn't made with this device's key. Set this device up again first."
            )
        }
        guard passwordVersion < UInt32.max else {
            throw CryptographyError(
                .unsupportedFormat,
                "The password was changed \(passwordVersion) times, and can't be any more. Encrypt the application anew."
            )
        }
        return try await KeyFile(
            wrapping: masterKey,
            with: password,
            epoch: epoch,
            registrationDigest: registrationDigest,
            passwordVersion: passwordVersion + 1,
            parameters: parameters.noWeaker(than: self.parameters),
            executor: executor
        )
    }
}
