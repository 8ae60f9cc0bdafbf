/// The chunks of one pass that are worked on, in the file's order: so many and not more.
///
/// When whoever iterates goes away, work that hasn't begun is given up.
final class ChunkWindow<Value: Sendable> {
    private let limit: Int
    private var tickets: [Ticket<Value>] = []

    /// Begins with none.
    ///
    /// - Parameter workers: Who works on them; twice as many chunks as workers keep them busy while one is being written.
    init(_ workers: SealingWorkers) {
        limit = 2 * workers.count
    }

    deinit {
        for ticket in tickets { ticket.abandon() }
    }

    var count: Int { tickets.count }

    var isFull: Bool { tickets.count >= limit }

    var isEmpty: Bool { tickets.isEmpty }

    /// Whether nobody works on any of them.
    var isDone: Bool { tickets.allSatisfy(\.isDone) }

    func append(_ ticket: Ticket<Value>) {
        tickets.append(ticket)
    }

    /// The result of the oldest; `nil` if there is none.
    func next() async throws -> Value? {
        guard let ticket = tickets.first else { return nil }
        // It stays in the window until it's done, so that it's given up with the rest.
        let value = try await ticket.value(of: "a chunk of a sealed file")
        tickets.removeFirst()
        return value
    }
}
