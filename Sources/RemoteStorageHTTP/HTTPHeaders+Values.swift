package import Foundation
package import NIOHTTP1

extension HTTPHeaders {
    /// The announced number of bytes of a body; `nil` if there is none that can be read.
    package var contentLength: Int64? { first(name: "Content-Length").flatMap { Int64($0) } }

    /// The date in the first header of a name; `nil` if there is none that can be read.
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
