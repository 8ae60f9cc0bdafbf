// Declarations of BackgroundTasks that the documentation's example uses.

/// A task for which iOS starts the app.
open class BGTask {
    /// What is called shortly before iOS takes the time back.
    public var expirationHandler: (() -> Void)?

    /// Tells iOS that the task has ended.
    public func setTaskCompleted(success: Bool) {}
}

/// A short task that brings the app up to date.
public class BGAppRefreshTask: BGTask {}
