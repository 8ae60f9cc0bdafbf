import Foundation

#if os(iOS)
import os
#endif

/// The cost of hashing a password: Argon2id's passes and memory.
///
/// A higher cost makes each guess more expensive for an attacker who has a key file, and also each legitimate use.
public struct PasswordParameters: Hashable, Sendable {
    /// The number of passes over the memory.
    public var passes: Int
    /// The memory that the hash takes, in KiB.
    public var memoryKibibytes: Int

    /// The memory that the hash takes, in bytes.
    public var memory: Int { memoryKibibytes << 10 }

    /// The minimum that is accepted: 2 passes over 64 MiB, libsodium's `INTERACTIVE`.
    public static let interactive = PasswordParameters(passes: 2, memoryKibibytes: 64 << 10)
    /// The default: 3 passes over 256 MiB, libsodium's `MODERATE`.
    public static let moderate = PasswordParameters(passes: 3, memoryKibibytes: 256 << 10)

    /// The maximum number of passes that is accepted.
    public static let maximumPasses = 20
    /// The maximum memory that is accepted on any machine, in KiB: 1 GiB.
    public static let maximumMemoryKibibytes = 1 << 20

    /// Creates parameters, which are validated when they're used.
    public init(passes: Int, memoryKibibytes: Int) {
        self.passes = passes
        self.memoryKibibytes = memoryKibibytes
    }

    /// Refuses parameters that an attacker who can write to the storage may have lowered, to guess, or raised, to do harm.
    ///
    /// Call it before allocating memory. A hash may take a quarter of this machine's memory, all but 64 MiB of what a container
    /// or a service may use on Linux, and no more than what iOS lets the process allocate: a process that takes more is ended.
    ///
    /// - Throws: ``CryptographyError/Code/weakParameters`` below ``interactive``;
    ///   ``CryptographyError/Code/costlyParameters`` above 20 passes or 1 GiB;
    ///   ``CryptographyError/Code/insufficientMemory`` above a quarter of the machine's memory, or above the
    ///   container's limit less 64 MiB;
    ///   ``CryptographyError/Code/outOfMemory`` above what the process may allocate.
    public func validate() throws(CryptographyError) {
        try validate(machineMemory: ProcessInfo.processInfo.physicalMemory)
        #if os(iOS)
        try validate(processMemory: UInt64(os_proc_available_memory()))
        #elseif os(Linux)
        if let limit = ControlGroups().memoryLimit { try validate(groupMemory: limit) }
        #endif
    }

    /// Refuses a hash that leaves the rest of this process's control group too few of the bytes that the group may use.
    ///
    /// The system ends a process that exceeds the limit, without an error that it could report.
    func validate(groupMemory limit: UInt64) throws(CryptographyError) {
        guard UInt64(memory) > limit - min(limit, Self.groupReserve) else { return }
        throw CryptographyError(
            .insufficientMemory,
            """
            Checking the password takes \(memory >> 20) MiB of memory, too much for a container or service that may use \
            \(limit >> 20) MiB. Raise its limit, or set a new application up with less (--password-memory 64).
            """
        )
    }

    /// What the rest of a container may need during a hash, in bytes.
    private static let groupReserve: UInt64 = 64 << 20

    /// Refuses a hash for which a process that may allocate this many bytes has no memory; 0 is no limit.
    func validate(processMemory: UInt64) throws(CryptographyError) {
        let available = processMemory - min(processMemory, Self.memoryOfOthers)
        guard processMemory > 0, UInt64(memory) > available else { return }
        throw CryptographyError(
            .outOfMemory,
            """
            Checking the password takes \(memory >> 20) MiB of memory, and the system lets this app allocate only \
            \(processMemory >> 20) MiB. Try again when the app does less at the same time, and not in an extension.
            """
        )
    }

    /// What the rest of the process may need during a hash, in bytes.
    private static let memoryOfOthers: UInt64 = 16 << 20

    /// Refuses parameters that are refused on every machine.
    func validateCost() throws(CryptographyError) {
        guard passes >= Self.interactive.passes, memoryKibibytes >= Self.interactive.memoryKibibytes else {
            throw CryptographyError(
                .weakParameters,
                """
                The password's hash is weaker (\(self)) than any that this program creates, so guessing the password would \
                be cheap. If the app chooses the parameters, choose at least those of `interactive`. Otherwise the key file \
                may have been tampered with: restore it from a backup.
                """
            )
        }
        guard passes <= Self.maximumPasses, memoryKibibytes <= Self.maximumMemoryKibibytes else {
            throw CryptographyError(
                .costlyParameters,
                """
                Checking the password would cost more (\(self)) than this program ever chooses: at most \
                \(Self.maximumPasses) passes, and 1 GiB. If the app chooses the parameters, choose smaller ones. Otherwise the \
                key file may have been tampered with: restore it from a backup.
                """
            )
        }
    }

    /// Refuses the same parameters as ``validate()``, on a machine with this many bytes of memory.
    func validate(machineMemory: UInt64) throws(CryptographyError) {
        try validateCost()
        guard UInt64(memoryKibibytes) <= machineMemory / 4 / 1024 else {
            throw CryptographyError(
                .insufficientMemory,
                """
                Checking the password takes \(memoryKibibytes >> 10) MiB of memory, more than a quarter of what this machine \
                has. Use a machine with more memory, or set a new application up with less (--password-memory 64).
                """
            )
        }
    }

    /// Returns parameters that cost at least as much as these and as `other`, in passes and in memory.
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
