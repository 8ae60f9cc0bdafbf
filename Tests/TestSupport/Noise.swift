extension [UInt8] {
    /// Returns random bytes, which can't be compressed.
    package static func noise(_ count: Int, using generator: inout some RandomNumberGenerator) -> [UInt8] {
        // A plain loop over memory: in a debug build `map` takes thirty times as long, and tests make gigabytes of noise.
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            var index = 0
            while index < count {
                buffer[index] = UInt8(truncatingIfNeeded: generator.next())
                index += 1
            }
            initializedCount = count
        }
    }
}
