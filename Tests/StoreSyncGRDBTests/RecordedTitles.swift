import ThreadSupport

/// Titles that a function of the app was called with.
final class RecordedTitles: Sendable {
    private let titles = Locked<[String]>([])

    var all: [String] { titles.withLock(\.self) }

    func note(_ title: String) { titles.withLock { $0.append(title) } }
}
