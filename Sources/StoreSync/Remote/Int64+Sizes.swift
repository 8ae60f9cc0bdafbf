extension Int64 {
    /// Returns the sum with the size of another file, limited: the storage may claim any sizes.
    func adding(size: Int64) -> Int64 { Swift.min(self + size, 1 << 60) }
}
