import ContentDigests

#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// Secret bytes: a key or a password.
///
/// They're in memory of libsodium's `sodium_malloc`: never swapped out if the system allows that, left out of core dumps, between
/// guard pages, read-only once they're filled, and overwritten when the last reference is released. Descriptions, dumps and
/// mirrors reveal nothing of them, nor do those of values that hold them. They're compared in constant time.
public final class SecretBytes: @unchecked Sendable, Equatable {
    // Sendable: the memory is written only before `init` or `several` returns, and is read-only from then on.
    private let memory: ProtectedMemory
    /// The bytes, within `memory`.
    private let bytes: UnsafeRawBufferPointer

    /// The number of bytes.
    public var count: Int { bytes.count }

    /// Allocates bytes and fills them.
    ///
    /// - Parameters:
    ///   - count: The number of bytes.
    ///   - fill: Writes them; keep no copy.
    /// - Throws: What `fill` throws.
    public init(count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws -> Void) rethrows {
        memory = ProtectedMemory(count: count)
        bytes = UnsafeRawBufferPointer(memory.bytes)
        try fill(memory.bytes)
        memory.protect()
    }

    private init(_ memory: ProtectedMemory, _ bytes: UnsafeRawBufferPointer) {
        self.memory = memory
        self.bytes = bytes
    }

    /// Allocates several secrets in common memory, since Linux limits a process to about 16,000 separate ones.
    ///
    /// The memory is overwritten when the last of them is released.
    ///
    /// - Parameters:
    ///   - limits: The maximum number of bytes of each secret.
    ///   - fill: Is called for each index in order; writes the secret to the start of the buffer, and returns its number of bytes.
    /// - Returns: The secrets, in the order of `limits`.
    /// - Throws: What `fill` throws.
    package static func several(
        upTo limits: [Int],
        _ fill: (_ index: Int, UnsafeMutableRawBufferPointer) throws -> Int
    ) rethrows -> [SecretBytes] {
        guard !limits.isEmpty else { return [] }
        let memory = ProtectedMemory(count: limits.reduce(0, +))
        var start = 0
        let secrets = try limits.indices.map { index in
            let room = UnsafeMutableRawBufferPointer(rebasing: memory.bytes[start...].prefix(limits[index]))
            start += limits[index]
            let count = try fill(index, room)
            return SecretBytes(memory, UnsafeRawBufferPointer(rebasing: room.prefix(count)))
        }
        memory.protect()
        return secrets
    }

    /// Divides the secret into its first bytes and the others.
    ///
    /// Both are in the same memory, because protecting memory takes several system calls.
    func divided(after count: Int) -> (SecretBytes, SecretBytes) {
        (
            SecretBytes(memory, UnsafeRawBufferPointer(rebasing: bytes.prefix(count))),
            SecretBytes(memory, UnsafeRawBufferPointer(rebasing: bytes.dropFirst(count)))
        )
    }

    /// Copies bytes; the caller has to overwrite their source.
    public convenience init(copying bytes: some Collection<UInt8>) {
        self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
    }

    /// Creates random bytes, which can't be predicted.
    ///
    /// - Parameter count: The number of bytes.
    public convenience init(randomCount count: Int) {
        self.init(count: count) { randombytes_buf($0.start, $0.count) }
    }

    /// Lets `body` read the bytes.
    ///
    /// - Parameter body: Reads the bytes; it must not keep a copy, or let the pointer escape.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withExtendedLifetime(self) { () throws(Failure) in
            try body(bytes)
        }
    }

    /// Whether two secrets are equal, compared in a time that depends only on their length.
    public static func == (left: SecretBytes, right: SecretBytes) -> Bool {
        right.withBytes(left.isEqual)
    }

    /// Whether the bytes equal `bytes`, compared in a time that depends only on their length.
    func isEqual(to bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes(isEqual)
    }

    private func isEqual(_ other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && withBytes { sodium_memcmp($0.start, other.start, count) == 0 }
    }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A placeholder with the number of bytes.
    public var description: String { "<secret of \(count) bytes>" }

    /// A placeholder with the number of bytes.
    public var debugDescription: String { description }

    /// Has no children: `dump` shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Memory of `sodium_malloc`.
private final class ProtectedMemory {
    let bytes: UnsafeMutableRawBufferPointer
    private let start: UnsafeMutableRawPointer

    init(count: Int) {
        Sodium.prepare()
        guard let memory = sodium_malloc(count) else {
            fatalError("the system provided no protected memory for a secret of \(count) bytes")
        }
        start = memory
        bytes = UnsafeMutableRawBufferPointer(start: memory, count: count)
    }

    deinit { sodium_free(start) }

    /// Makes the memory read-only.
    func protect() {
        let status = sodium_mprotect_readonly(start)
        precondition(status == 0, "the memory of a secret could not be made read-only")
    }
}
