/// Asks the system for time to keep working while the app is in the background.
///
/// On iOS it wraps `UIApplication.beginBackgroundTask` and `endBackgroundTask`. Other platforms need no provider.
public protocol BackgroundActivityProvider: Sendable {
    /// Takes an assertion.
    ///
    /// - Parameter expired: To be called at most once, when the system withdraws the assertion.
    /// - Returns: The assertion's identifier, or `nil` if the system grants none.
    func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int?

    /// Releases an assertion.
    ///
    /// Called exactly once for each assertion that was taken: when the last operation has ended, when the grace period or
    /// the assertion has expired, or when the app has returned to the foreground.
    func endActivity(_ identifier: Int) async
}
