package import Foundation
import NIOHTTP1
package import RemoteStorage
import ThreadSupport

/// The delays between the attempts of a request.
package struct RetrySchedule: Sendable {
    /// The number of timeouts that end the retries, because each takes as long as the time limit.
    private static let maximumTimeouts = 2

    private let retries: RequestRetries
    /// How often the request was sent.
    package private(set) var attempts = 0
    private var timeouts = 0

    package init(_ retries: RequestRetries) {
        self.retries = retries
    }

    package mutating func begin() { attempts += 1 }

    /// Records that the server didn't answer an attempt within the time limit.
    package mutating func noteTimeout() { timeouts += 1 }

    /// Returns the delay before the next attempt.
    ///
    /// - Parameters:
    ///   - retryAfter: The delay that the server asked for.
    ///   - random: A number from 0 to 1, so that devices that failed at the same time don't retry at the same time.
    /// - Returns: The delay; `nil` to give up.
    package func delay(retryAfter: Duration?, random: Double) -> Duration? {
        guard attempts < retries.attempts, timeouts < Self.maximumTimeouts else { return nil }
        if let retryAfter {
            // Not before that time, and not all devices at once.
            return retryAfter <= retries.longestDelay ? retryAfter + retries.delay * random : nil
        }
        let backoff = ExponentialBackoff(initialDelay: retries.delay, maximumDelay: retries.longestDelay)
        return min(backoff.delay(after: attempts) * (2 * random), retries.longestDelay)
    }

    /// Returns the delay that an answer asks for.
    ///
    /// A date is compared with the time of the answer: this device's clock may be wrong.
    package static func retryAfter(_ response: HTTPResponse) -> Duration? {
        let now = response.headers.date("Date") ?? Date()
        return retryAfter(response.headers.first(name: "Retry-After"), now: now)
    }

    /// Reads the value of a `Retry-After` header: seconds, or a date.
    package static func retryAfter(_ value: String?, now: Date) -> Duration? {
        guard let value = value?.trimmingCharacters(in: .whitespaces) else { return nil }
        if let seconds = Int64(value) { return seconds >= 0 ? .seconds(min(seconds, 1 << 32)) : nil }
        return Date(http: value).map { .seconds(max(0, $0.timeIntervalSince(now).rounded(.up))) }
    }
}
