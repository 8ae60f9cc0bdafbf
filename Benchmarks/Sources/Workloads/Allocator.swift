#if canImport(Darwin)
import Darwin
#else
import CMalloc
#endif

/// Returns the bytes that the process has allocated and not freed, by its allocator's own count.
func allocatedBytes() -> Int {
    #if canImport(Darwin)
    var statistics = malloc_statistics_t()
    malloc_zone_statistics(nil, &statistics)
    return statistics.size_in_use
    #else
    let information = mallinfo2()
    return Int(information.uordblks + information.hblkhd)
    #endif
}
