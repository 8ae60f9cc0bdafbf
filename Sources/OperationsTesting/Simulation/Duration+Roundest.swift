extension Duration {
    /// Returns the delay between two delays that has the fewest digits, in nanoseconds.
    ///
    /// `upper` is capped to a value close to `lower`, because the code before the sleep may have computed for long.
    static func roundest(from lower: Duration, to upper: Duration) -> Duration {
        let (low, high) = (lower.nanoseconds, upper.nanoseconds)
        guard low > 0 else { return .zero }
        let bound = min(high, low + low / 200 + 50_000)
        var unit: Int64 = 1_000_000_000_000_000_000
        while unit > 1 {
            let candidate = ((low - 1) / unit + 1) * unit
            if candidate <= bound { return .nanoseconds(candidate) }
            unit /= 10
        }
        return .nanoseconds(low)
    }

    private var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        // A delay of more than three years counts as never.
        guard abs(seconds) < 100_000_000 else { return seconds < 0 ? 0 : 100_000_000_000_000_000 }
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
