// Conditions on the sets of the log, in SQL.

extension ReplicaLog.Status {
    /// The condition that a set is integrated, whether it can still be undone or not.
    static let isIntegrated = "status IN (\(integrated.rawValue), \(stable.rawValue))"
    /// The condition that a set waits or is void.
    static let isNotIntegrated = "status IN (\(waiting.rawValue), \(void.rawValue))"
    /// The condition that a set waits, is integrated and can still be undone, or is void.
    static let isNotStable = "status IN (\(waiting.rawValue), \(integrated.rawValue), \(void.rawValue))"
    /// The condition that a set isn't ready yet.
    static let isWaiting = "status = \(waiting.rawValue)"
    /// The condition that a set may count.
    static let isNotVoid = "status <> \(void.rawValue)"
    /// The condition that a set is void.
    static let isVoid = "status = \(void.rawValue)"
    /// The condition that a set is integrated and can't be undone any more.
    static let isStable = "status = \(stable.rawValue)"
}

extension ReplicaLog.Origin {
    /// The condition that other devices may know a set.
    static let isShared = "origin NOT IN (\(captured.rawValue), \(withdrawn.rawValue))"
    /// The condition that a set wasn't captured here.
    static let isForeign = "origin = \(otherDevice.rawValue)"
    /// The condition that a set was captured here, and no other device knows it.
    static let isCaptured = "origin = \(captured.rawValue)"
    /// The condition that a set was captured here, and this device has taken it back.
    static let isWithdrawn = "origin = \(withdrawn.rawValue)"
    /// The condition that a set was captured here, and its edits aren't in a later set.
    static let isNotCapturedAgain =
        "origin IN (\(captured.rawValue), \(published.rawValue), \(withdrawn.rawValue))"
    /// The condition that a set was captured here and can't be captured again under its number: other devices may know this
    /// set, or another one of its number.
    static let isIrrevocable = "origin NOT IN (\(otherDevice.rawValue), \(captured.rawValue))"
}
