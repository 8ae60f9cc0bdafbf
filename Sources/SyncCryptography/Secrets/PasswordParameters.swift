import Foundation

/// What hashing a password costs: Argon2id's passes and memory.
///
/// The more, the more a guess costs somebody who has got hold of a key file; and the more each honest use.
public struct PasswordParameters: Hashable, Sendable {
    /// How often the hash goes over its memory.
    public var passes: Int
    /// How much memory the hash takes, in KiB.
    public var memoryKibibytes: Int

    /// How much memory the hash takes, in bytes.
    public var memory: Int { memoryKibibytes << 10 }

    /// The least that is accepted: 2 passes over 64 MiB, libsodium's `INTERACTIVE`.
    public static let interactive = PasswordParameters(passes: 2, memoryKibibytes: 64 << 10)
    /// What is used where nothing else is said: 3 passes over 256 MiB, libsodium's `MODERATE`.
    public static let moderate = PasswordParameters(passes: 3, memoryKibibytes: 256 << 10)

    /// The most passes that are accepted.
    public static let mostPasses = 20
    /// The most memory that is accepted, whatever the machine has: 1 GiB.
    public static let mostMemoryKibibytes = 1 << 20

    /// Creates parameters; whether they're acceptable is asked when they're used.
    public init(passes: Int, memoryKibibytes: Int) {
        self.passes = passes
        self.memoryKibibytes = memoryKibibytes
    }

    /// Refuses parameters that whoever can write to the storage may have lowered, to guess, or raised, to do harm.
    ///
    /// Nothing is allocated before. A hash may take a quarter of this machine's memory.
    ///
    /// - Throws: ``CryptographyError/Code/weakParameters`` below ``interactive``;
    ///   ``CryptographyError/Code/costlyParameters`` above 20 passes, 1 GiB or a quarter of the machine's memory.
    public func validate() throws(CryptographyError) {
        try validate(machineMemory: ProcessInfo.processInfo.physicalMemory)
    }

    /// As ``validate()``, on a machine with so many bytes of memory.
    func validate(machineMemory: UInt64) throws(CryptographyError) {
        guard passes >= Self.interactive.passes, memoryKibibytes >= Self.interactive.memoryKibibytes else {
            throw CryptographyError(
                .weakParameters,
                """
                The password's hash is weaker (\(self)) than any that this program makes, so guessing the password would \
                be cheap. Somebody may have changed the key file: restore it from a backup.
                """
            )
        }
        guard passes <= Self.mostPasses, memoryKibibytes <= Self.mostMemoryKibibytes,
            UInt64(memoryKibibytes) <= machineMemory / 4 / 1024
        else {
            throw CryptographyError(
                .costlyParameters,
                """
                Checking the password would cost this machine too much (\(self)): at most \(Self.mostPasses) passes, 1 GiB \
                and a quarter of its memory are accepted. If a stronger machine made the key file, change the password there, \
                with less; else somebody changed it: restore it from a backup.
                """
            )
        }
    }

    /// Parameters that cost at least as much as these and as `other`, in passes and in memory.
    public func noWeaker(than other: PasswordParameters) -> PasswordParameters {
        PasswordParameters(
            passes: max(passes, other.passes),
            memoryKibibytes: max(memoryKibibytes, other.memoryKibibytes)
        )
    }
}

extension PasswordParameters: CustomStringConvertible {
    /// Passes and memory.
    public var description: String { "\(passes) passes over \(memoryKibibytes) KiB" }
}
