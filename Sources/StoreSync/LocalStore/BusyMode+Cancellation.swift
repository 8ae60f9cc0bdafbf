import Foundation
import GRDB

extension Database.BusyMode {
    /// Waits for other programs until `timeout` seconds have passed or the task is cancelled.
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
