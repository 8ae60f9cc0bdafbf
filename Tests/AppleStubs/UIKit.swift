// Declarations of UIKit that the documentation's example uses.

/// An app.
@MainActor public final class UIApplication {
    /// The app.
    public static let shared = UIApplication()

    /// Begins a task that may continue in the background.
    public func beginBackgroundTask(
        expirationHandler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier { .invalid }

    /// Ends it.
    public func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) {}
}

/// A task that may continue in the background.
public struct UIBackgroundTaskIdentifier: RawRepresentable, Hashable, Sendable {
    /// No task.
    public static let invalid = Self(rawValue: 0)

    /// The number.
    public let rawValue: Int

    /// Creates an identifier.
    public init(rawValue: Int) { self.rawValue = rawValue }
}
