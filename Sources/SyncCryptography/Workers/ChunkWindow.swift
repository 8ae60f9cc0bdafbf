/// The bounded number of chunks of one pass that are in progress, in the file's order.
///
/// When the iterator is released, work that hasn't started is abandoned.
final class ChunkWindow<Value: Sendable> {
    private let limit: Int
    private var tickets: [Ticket<Value>] = []

    /// Creates an empty window.
    ///
    /// - Parameter workers: The workers. Twice as many chunks as workers keep them busy while a chunk is written.
    init(_ workers: SealingWorkers) {
        limit = 2 * workers.count
    }

    deinit {
        for ticket in tickets { ticket.abandon() }
    }

    var count: Int { tickets.count }

    var isFull: Bool { tickets.count >= limit }

    var isEmpty: Bool { tickets.isEmpty }

    /// Whether the work on all chunks is done.
    var isDone: Bool { tickets.allSatisfy(\.isDone) }

    func append(_ ticket: Ticket<Value>) {
        tickets.append(ticket)
    }

    /// Returns the result of the oldest chunk; `nil` if the window is empty.
    func next() async throws -> Value? {
        guard let ticket = tickets.first else { return nil }
        // The ticket stays in the window until it's done, so that it's abandoned with the rest.
        let value = try await ticket.value(of: "a chunk of a sealed file")
        tickets.removeFirst()
        return value
    }
}
