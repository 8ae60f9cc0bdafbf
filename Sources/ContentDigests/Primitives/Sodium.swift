#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// libsodium, which has to be initialized once.
package enum Sodium {
    private static let isReady = sodium_init() >= 0

    /// Makes sure that libsodium can be called.
    ///
    /// Without it there is no randomness and no protected memory, so the process can't continue safely.
    package static func prepare() {
        precondition(isReady, "libsodium could not be initialized: this system provides no random numbers")
    }

    /// Returns bytes that can't be predicted.
    package static func randomBytes(_ count: Int) -> [UInt8] {
        prepare()
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            randombytes_buf(UnsafeMutableRawBufferPointer(buffer).start, count)
            initialized = count
        }
    }
}
