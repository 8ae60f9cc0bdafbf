/// The bounded number of chunks of one pass that are in progress, in the file's order.
///
/// When the iterator is released, work that hasn't started is abandoned.
final class ChunkWindow<Value: Sendable> {
    private let limit: Int
    private var tickets: [Ticket<Value>] = []

    /// The index of the chunk that is added next.
    private(set) var nextIndex: Int

    /// Whether no chunk follows the chunks that were added.
    var hasLast = false

    /// Creates an empty window.
    ///
    /// - Parameters:
    ///   - workers: The workers. Twice as many chunks as workers keep them busy while a chunk is written.
    ///   - index: The index of the pass's first chunk.
    init(_ workers: SealingWorkers, from index: Int = 0) {
        limit = 2 * workers.count
        nextIndex = index
    }

    deinit {
        for ticket in tickets { ticket.abandon() }
    }

    /// Whether the next chunk can be added.
    var isOpen: Bool { !hasLast && tickets.count < limit }

    var isEmpty: Bool { tickets.isEmpty }

    /// Whether the work on all chunks is done.
    var isDone: Bool { tickets.allSatisfy(\.isDone) }

    /// Whether nothing is left to return.
    var isOver: Bool { hasLast && isEmpty }

    /// Adds the next chunk.
    func append(_ ticket: Ticket<Value>) {
        tickets.append(ticket)
        nextIndex += 1
    }

    /// Returns the oldest chunk's index and result; `nil` if the window is empty.
    func next() async throws -> (index: Int, result: Value)? {
        guard let ticket = tickets.first else { return nil }
        // The ticket stays in the window until it's done, so that it's abandoned with the rest.
        let result = try await ticket.value(of: "a chunk of a sealed file")
        let index = nextIndex - tickets.count
        tickets.removeFirst()
        return (index, result)
    }
}
