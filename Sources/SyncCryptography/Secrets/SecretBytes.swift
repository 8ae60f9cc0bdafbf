import CSodium

/// Bytes that nobody else should see: a key or a password.
///
/// They live in memory of libsodium's `sodium_malloc`: never swapped out where the system allows that, left out of core dumps,
/// between pages that trap, read-only once they are filled, and overwritten when the last reference goes. Descriptions,
/// dumps and mirrors show nothing of them, nor of what holds them. Two are compared in constant time.
public final class SecretBytes: @unchecked Sendable, Equatable {
    // Sendable: `memory` is written only before `init` returns, and is read-only from then on.
    private let memory: UnsafeMutableRawPointer

    /// How many bytes there are.
    public let count: Int

    /// Allocates bytes and fills them.
    ///
    /// - Parameters:
    ///   - count: How many bytes.
    ///   - fill: Writes them; keep no copy.
    /// - Throws: What `fill` throws.
    public init(count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws -> Void) rethrows {
        Sodium.prepare()
        guard let memory = sodium_malloc(count) else {
            fatalError("the system gave no protected memory for a secret of \(count) bytes")
        }
        self.memory = memory
        self.count = count
        // A throw from here on ends in `deinit`, all properties being set.
        try fill(UnsafeMutableRawBufferPointer(start: memory, count: count))
        let status = sodium_mprotect_readonly(memory)
        precondition(status == 0, "the memory of a secret could not be made read-only")
    }

    /// Copies bytes; overwriting where they come from is the caller's.
    public convenience init(copying bytes: some Collection<UInt8>) {
        self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
    }

    /// Makes bytes that nobody can foresee.
    ///
    /// - Parameter count: How many.
    public convenience init(randomCount count: Int) {
        self.init(count: count) { randombytes_buf($0.start, $0.count) }
    }

    deinit { sodium_free(memory) }

    /// Lets `body` read the bytes.
    ///
    /// - Parameter body: Keep no copy, and let the pointer not get out.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    public func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withExtendedLifetime(self) { try body(UnsafeRawBufferPointer(start: memory, count: count)) }
    }

    /// Whether two secrets are the same; takes the same time for all of the same length.
    public static func == (left: SecretBytes, right: SecretBytes) -> Bool {
        right.withBytes(left.isEqual)
    }

    /// Whether the bytes are these; takes the same time for all of the same length.
    func isEqual(to bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes(isEqual)
    }

    private func isEqual(_ other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && withBytes { sodium_memcmp($0.start, other.start, count) == 0 }
    }
}

extension SecretBytes: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Says how many bytes it hides.
    public var description: String { "<secret of \(count) bytes>" }

    /// Says how many bytes it hides.
    public var debugDescription: String { description }

    /// Has no children: `dump` shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
