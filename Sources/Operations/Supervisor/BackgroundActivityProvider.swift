/// Asks the system for time to go on while the app is in the background.
///
/// On iOS it wraps `UIApplication.beginBackgroundTask` and `endBackgroundTask`; elsewhere nobody asks, so there is none.
public protocol BackgroundActivityProvider: Sendable {
    /// Takes an assertion.
    ///
    /// - Parameter expired: To be called when the system's patience ends, at most once.
    /// - Returns: The assertion's identifier, or `nil` if the system grants none.
    func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int?

    /// Gives the assertion back. Called exactly once for every one that was taken.
    func endActivity(_ identifier: Int) async
}
