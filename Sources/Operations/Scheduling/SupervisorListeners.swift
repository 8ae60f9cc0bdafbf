import ThreadSupport

/// The supervisor of a scheduler, and the sequences of its events and of its progress that still have a reader.
///
/// Decisions append events, the supervisor's and those of its operations, under the scheduler's lock, and one thread at a
/// time delivers them outside it. Otherwise a thread could overtake another thread that decided earlier, and an operation
/// would start after its end.
final class SupervisorListeners: @unchecked Sendable {
    // Sendable: accessed only under the scheduler's lock. A class, because a weak reference would make the board expensive
    // to access.

    /// Tells an event to the sequences that existed when it happened, or ends them.
    typealias Delivery = @Sendable () -> Void

    /// The values that the listeners were told.
    struct Values {
        var count = 0
        var isSuspended = false
        var width = 0
        var totalUnitCount: Int64 = 0
        var completedUnitCount: Int64 = 0
    }

    /// The scheduler that delivers, which owns this.
    unowned var core: SchedulerCore?
    /// The supervisor, for the contexts of its operations, until it is released.
    weak var supervisor: OperationSupervisor?
    /// Whether the supervisor was released, so that the end of its last operation ends the sequences.
    var isReleased = false
    var events: [EventListener<SupervisorEvent>] = []
    /// Readers of the progress, which compute it themselves, because that takes a pass over all operations.
    var progress: [EventListener<Void>] = []
    var told = Values()
    /// The progress when the supervisor was last empty, for readers that outlive it.
    let lastProgress = Locked(SupervisorProgress(totalUnitCount: 0, completedUnitCount: 0, fractionCompleted: 0))
    private var undelivered: [Delivery] = []
    private var isDelivering = false

    var isEmpty: Bool { events.isEmpty && progress.isEmpty }

    func append(_ delivery: @escaping Delivery) { undelivered.append(delivery) }

    /// Takes the events to deliver.
    ///
    /// - Parameter continues: Whether the caller has just delivered the previous ones.
    /// - Returns: `nil` if there are none, or another thread delivers them.
    func take(continues: Bool) -> [Delivery]? {
        guard continues || !isDelivering else { return nil }
        isDelivering = !undelivered.isEmpty
        guard isDelivering else { return nil }
        defer { undelivered = [] }
        return undelivered
    }

    deinit {
        for listener in events { listener.continuation.finish() }
        for listener in progress { listener.continuation.finish() }
    }
}

// Each of these costs one comparison as long as there are no listeners.
extension SchedulerBoard {
    /// Whether the supervisor's own events or progress have a reader, which alone wants to know of changed readiness.
    private var hasListeners: Bool { scheduler.tracksReadiness }

    /// Tells the listeners of an operation's state, and of the states of the handles that joined it.
    mutating func tellState(of record: OperationRecord) {
        guard hasListeners else { return }
        append(record)
        guard let extras = record.extras, extras.joinedCount > 0, !record.hasEnded else { return }
        for position in scheduler.joined(to: record.position) { append(self.record(at: position)) }
    }

    /// Tells the listeners of an operation that was added; if it becomes ready itself, ``tellChanges()`` does so.
    mutating func tellAddition(of record: OperationRecord) {
        guard hasListeners else { return }
        if state(of: record) != .ready || record.extras?.target != nil { append(record) }
    }

    /// Tells the listeners what has changed since they were told last: readiness, count, suspension, width and progress.
    mutating func tellChanges() {
        guard hasListeners else { return }
        for position in scheduler.takeReadinessChanges() {
            if let record = records[Int(position)], record.lifecycle.isWaiting { tellState(of: record) }
        }
        let (former, now) = (listeners.told, values)
        listeners.told = now
        if former.count != now.count { tell(listeners.events, .count(now.count)) }
        if former.isSuspended != now.isSuspended { tell(listeners.events, .suspended(now.isSuspended)) }
        if former.width != now.width { tell(listeners.events, .width(now.width)) }
        let hasProgressed =
            former.totalUnitCount != now.totalUnitCount || former.completedUnitCount != now.completedUnitCount
        if hasProgressed { tellProgress() }
        if listeners.isReleased, scheduler.count == 0 { endSequences() }
    }

    /// Ends the sequences once the last operation has ended, because the supervisor was released.
    mutating func releaseSupervisor() {
        listeners.isReleased = true
        tellChanges()
    }

    private mutating func endSequences() {
        tell(listeners.events, nil)
        emit(.call { [progress = listeners.progress] in for reader in progress { reader.continuation.finish() } })
    }

    /// Tells the readers of the progress that it may have changed.
    mutating func tellProgress() {
        guard hasListeners, !listeners.progress.isEmpty else { return }
        if scheduler.count == 0 {
            let last = progress()
            listeners.lastProgress.withLock { $0 = last }
        }
        emit(
            .call { [progress = listeners.progress] in
                for reader in progress { reader.continuation.yield() }
            }
        )
    }

    private var values: SupervisorListeners.Values {
        SupervisorListeners.Values(
            count: operationCount,
            isSuspended: scheduler.isSuspended,
            width: scheduler.width,
            totalUnitCount: tally.total,
            completedUnitCount: tally.completed
        )
    }

    private mutating func append(_ record: OperationRecord) {
        tell(listeners.events, .operation(OperationDependency(record: record), state(of: record)))
    }

    // MARK: Listening

    /// Adds a sequence of events, which begins with the current values.
    fileprivate mutating func listen(_ listener: EventListener<SupervisorEvent>) {
        tellChanges()
        let values = values
        listeners.told = values
        // The sequence has no reader yet, so these calls only fill its buffer.
        listener.continuation.yield(.count(values.count))
        listener.continuation.yield(.suspended(values.isSuspended))
        listener.continuation.yield(.width(values.width))
        for record in records.compactMap({ $0 }).sorted(by: { $0.id < $1.id }) {
            guard !record.hasEnded else { continue }
            let state = state(of: record)
            let reference = OperationDependency(record: record)
            // The outcome is visible on the handle while the ending phase runs, but the end is told when that is over.
            listener.continuation.yield(.operation(reference, state.isEnded ? .executing : state))
        }
        listeners.events.append(listener)
        scheduler.tracksReadiness = true
    }

    fileprivate mutating func listen(_ listener: EventListener<Void>) {
        tellChanges()
        listeners.told = values
        let now = progress()
        listeners.lastProgress.withLock { $0 = now }
        listener.continuation.yield()
        listeners.progress.append(listener)
        scheduler.tracksReadiness = true
    }

    fileprivate mutating func stopListening(_ ticket: UInt64) {
        listeners.events.removeAll { $0.ticket == ticket }
        listeners.progress.removeAll { $0.ticket == ticket }
        if listeners.isEmpty {
            scheduler.tracksReadiness = false
            _ = scheduler.takeReadinessChanges()
        }
    }
}

extension SchedulerCore {
    func makeEvents() -> AsyncStream<SupervisorEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: SupervisorEvent.self)
        let listener = EventListener(ticket: makeTicket(), continuation: continuation)
        continuation.onTermination = { [weak self, ticket = listener.ticket] _ in self?.stopListening(ticket) }
        withBoard { $0.listen(listener) }
        return stream
    }

    func makeProgressUpdates() -> some AsyncSequence<SupervisorProgress, Never> & Sendable {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let listener = EventListener(ticket: makeTicket(), continuation: continuation)
        continuation.onTermination = { [weak self, ticket = listener.ticket] _ in self?.stopListening(ticket) }
        let lastProgress = withBoard { board in
            board.listen(listener)
            return board.listeners.lastProgress
        }
        return stream.map { [weak self] _ in
            self?.withBoard { $0.progress() } ?? lastProgress.withLock { $0 }
        }
    }

    private func stopListening(_ ticket: UInt64) { withBoard { $0.stopListening(ticket) } }

    /// Delivers events in the order in which they were decided, unless another thread does so.
    func deliverEvents() {
        var continues = false
        while let deliveries = withBoard({ $0.listeners.take(continues: continues) }) {
            for delivery in deliveries { delivery() }
            continues = true
        }
    }
}
