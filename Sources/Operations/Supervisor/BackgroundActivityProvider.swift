/// Asks the system for time to go on while the app is in the background.
///
/// On iOS it wraps `UIApplication.beginBackgroundTask` and `endBackgroundTask`; elsewhere nobody asks, so there is none.
public protocol BackgroundActivityProvider: Sendable {
    /// Takes an assertion.
    ///
    /// - Parameter expired: To be called when the system's patience ends, at most once.
    /// - Returns: The assertion's identifier, or `nil` if the system grants none.
    func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int?

    /// Releases an assertion.
    ///
    /// Called exactly once for each that was taken: when the last work has ended, the grace or the assertion has expired
    /// or the app has come back.
    func endActivity(_ identifier: Int) async
}
