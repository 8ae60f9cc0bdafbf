package import Foundation
package import NIOHTTP1
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

extension HTTPHeaders {
    /// The date in the first header of a name; `nil` if there is none.
    package func date(_ name: String) -> Date? { first(name: name).flatMap { Date(http: $0) } }
}

extension Date {
    /// Reads a date in HTTP's format: `Sun, 06 Nov 1994 08:49:37 GMT`.
    package init?(http string: String) {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let words = string.split { $0 == " " || $0 == ":" || $0 == "-" || $0 == "," }.map { String($0) }
        guard words.count == 8, let month = months.firstIndex(of: words[2]), words[7] == "GMT",
            let day = Int(words[1]), let year = Int(words[3]), (1...31).contains(day), (1601...9999).contains(year),
            let hour = Int(words[4]), let minute = Int(words[5]), let second = Int(words[6]),
            (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second)
        else { return nil }
        let days = Self.days(year: year, month: month + 1, day: day)
        self.init(timeIntervalSince1970: TimeInterval(days * 86_400 + hour * 3600 + minute * 60 + second))
    }

    /// Days since 1970-01-01 in the proleptic Gregorian calendar.
    private static func days(year: Int, month: Int, day: Int) -> Int {
        // Counts years from March, so that the leap day is the last day of a year.
        let (year, month) = month > 2 ? (year, month - 3) : (year - 1, month + 9)
        return 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
    }
}
