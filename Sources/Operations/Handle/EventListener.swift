/// A sequence of events that still has a reader.
struct EventListener<Event: Sendable>: Sendable {
    let ticket: UInt64
    let continuation: AsyncStream<Event>.Continuation

    /// Tells the reader of an event, or of the end of the sequence where this is `nil`.
    func tell(_ event: Event?) {
        if let event { continuation.yield(event) } else { continuation.finish() }
    }
}

extension OperationRecord {
    /// Creates a sequence of the operation's events from now on.
    ///
    /// It begins with `started` if the operation is executing or paused, or is just `ended` if it has ended.
    func makeEvents() -> AsyncStream<OperationEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: OperationEvent.self,
            bufferingPolicy: .bufferingNewest(16)
        )
        // The stream has no reader yet, so under the lock these calls only change its buffer and its handler.
        core.withBoard { board in
            let state = board.state(of: self)
            guard !hasEnded else {
                continuation.yield(.ended(state))
                continuation.finish()
                return
            }
            if state == .executing || state == .paused { continuation.yield(.started) }
            let listener = EventListener(ticket: board.makeTicket(), continuation: continuation)
            let target = extras?.target
            continuation.onTermination = { [weak self, weak target] _ in
                self?.remove(listener.ticket)
                target?.remove(listener.ticket)
            }
            madeExtras.listeners.append(listener)
            target?.madeExtras.listeners.append(listener)
        }
        return stream
    }

    /// Removes a sequence that was read to its end, or whose reader was released.
    private func remove(_ ticket: UInt64) {
        core.withBoard { _ in extras?.listeners.removeAll { $0.ticket == ticket } }
    }
}
