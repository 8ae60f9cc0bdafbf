import Foundation
import GRDB

extension Database.BusyMode {
    /// Waits for other programs until the timeout expires or the task is cancelled.
    ///
    /// - Parameter timeout: How long to wait, in seconds.
    /// - Returns: The mode.
    static func cancellable(_ timeout: TimeInterval) -> Database.BusyMode {
        let interval: TimeInterval = 0.02
        return .callback { attempts in
            guard !Task.isCancelled, TimeInterval(attempts) * interval < timeout else { return false }
            Thread.sleep(forTimeInterval: interval)
            return true
        }
    }
}

extension StoreSyncError {
    /// This error, or `CancellationError` if a cancellation ended the wait for another program.
    var orCancellation: any Error { code == .busy && Task.isCancelled ? CancellationError() : self }
}
