import Operations
import RemoteStorage
import ThreadSupport

/// Fails one request to the storage, once.
final class FailingRequest: Sendable {
    private let remaining = Locked<Int?>(nil)

    /// Fails the request that comes after `count` others.
    func arm(after count: Int) { remaining.withLock { $0 = count } }

    /// Lets all requests pass, and returns whether one has failed.
    func disarm() -> Bool {
        remaining.withLock { remaining in
            defer { remaining = nil }
            return remaining == nil
        }
    }

    func check(_ step: String) throws {
        guard ObservedRequest.Kind.allCases.contains(where: { step.hasPrefix("before \($0.rawValue)") }) else { return }
        let fails = remaining.withLock { remaining in
            guard let count = remaining else { return false }
            remaining = count == 0 ? nil : count - 1
            return count == 0
        }
        if fails { throw RemoteError(.unavailable, "The request was lost.") }
    }
}

extension OperationOptions {
    /// One retry at once, whatever the failure.
    static let retriedOnce: OperationOptions = {
        var options = OperationOptions()
        options.retry = RetryPolicy(maximumAttempts: 2, initialDelay: .zero) { _ in true }
        return options
    }()
}
