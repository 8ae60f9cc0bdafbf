/// Why an operation isn't running, or what it does.
public struct OperationExplanation: Sendable, CustomStringConvertible {
    /// One of the things that an operation waits for.
    public enum Reason: Sendable, CustomStringConvertible {
        /// This operation must end first.
        case dependency(any OperationReference)
        /// Another operation holds the key, or has waited for it longer.
        case key(ExclusionKey, any OperationReference)
        /// A barrier was added before it, or it's a barrier itself and this operation was added before it.
        case barrier(any OperationReference)
        /// All slots are in use: this many operations run.
        case width(Int)
        /// The supervisor is suspended.
        case suspended
        /// The app is in the background, and the operation may not start there.
        case background
        /// Its parent runs and holds the keys that it needs.
        case parent(any OperationReference)
        /// It is ``OperationState/paused``, for this reason.
        case pause(String)
        /// It can't resume before its children return the keys that it lent them.
        case lentKeys
        /// It joined this operation.
        case joined(any OperationReference)

        /// The reason in words.
        public var description: String {
            switch self {
            case .dependency(let other): "it waits for \(Self.describe(other)) in \"\(other.supervisorName)\""
            case .key(let key, let other): "\(Self.describe(other)) holds or has waited longer for the key \"\(key)\""
            case .barrier(let other): "a barrier separates it from \(Self.describe(other))"
            case .width(let width): "all \(width) slots are in use"
            case .suspended: "the supervisor is suspended"
            case .background: "the app is in the background"
            case .parent(let parent): "its parent \(Self.describe(parent)) runs and holds the keys that it needs"
            case .pause(let reason): "it waits for \(reason)"
            case .lentKeys: "its children use its keys"
            case .joined(let other): "it joined \(Self.describe(other))"
            }
        }

        private static func describe(_ other: any OperationReference) -> String {
            "\(other.name) (operation \(other.id), \(other.state))"
        }
    }

    /// The operation's state.
    public let state: OperationState
    /// The name of the operation's supervisor.
    public let supervisorName: String
    /// The client on whose behalf the operation works, if its options name one.
    public let clientIdentifier: String?
    /// What it waits for.
    ///
    /// Empty if it runs, has ended, or is about to start.
    public let reasons: [Reason]

    /// State, supervisor, client and reasons in words.
    public var description: String {
        let client = clientIdentifier.map { " on behalf of client \($0)" } ?? ""
        let reasons = reasons.isEmpty ? "" : ": " + reasons.map(\.description).joined(separator: "; ")
        return "\(state) in \"\(supervisorName)\"" + client + reasons
    }
}

extension OperationReference {
    /// Why the operation isn't running, or what it does, at this moment.
    public func explain() -> OperationExplanation {
        let record = dependency.record
        return record.core.withBoard { $0.explain(record) }
    }
}

extension SchedulerBoard {
    fileprivate func explain(_ record: OperationRecord) -> OperationExplanation {
        let state = state(of: record)
        let isScheduled = !state.isEnded && contains(record)
        return OperationExplanation(
            state: state,
            supervisorName: environment.configuration.name,
            clientIdentifier: record.options.clientIdentifier,
            reasons: isScheduled ? reasons(record) : []
        )
    }

    private func reference(_ position: SchedulerState.Position) -> any OperationReference {
        OperationDependency(record: record(at: position))
    }

    private func reasons(_ record: OperationRecord) -> [OperationExplanation.Reason] {
        let position = record.position
        switch scheduler.phase(of: position) {
        case .waiting:
            let dependencies = scheduler.dependencies(of: position).map { edge in
                edge.policy == .mirror
                    ? OperationExplanation.Reason.joined(reference(edge.dependency))
                    : .dependency(reference(edge.dependency))
            }
            let foreign = (record.extras?.foreignDependencies ?? []).map {
                OperationExplanation.Reason.dependency($0)
            }
            let keys = scheduler.keyPredecessors(of: position).map {
                OperationExplanation.Reason.key($0.key, reference($0.position))
            }
            let barriers = scheduler.barrierWaits(of: position).prefix(1).map {
                OperationExplanation.Reason.barrier(reference($0))
            }
            return dependencies + foreign + keys + barriers
        case .ready:
            return readyReasons(record)
        case .paused:
            return record.extras?.pauseReason.map { [.pause($0)] } ?? []
        case .resuming:
            let isOwedKeys = scheduler.relations[position]?.isOwedKeys == true
            return isOwedKeys ? [.lentKeys] : [.width(max(1, scheduler.width))]
        case .free, .running, .abandoned:
            return []
        }
    }

    private func readyReasons(_ record: OperationRecord) -> [OperationExplanation.Reason] {
        let entry = scheduler.entries[Int(record.position)]
        if entry.traits.contains(.isChild) {
            if scheduler.isHeldByParent(record.position), let parent = scheduler.relations[record.position]?.parent {
                return [.parent(reference(parent))]
            }
            return [.width(max(1, scheduler.width))]
        }
        var reasons: [OperationExplanation.Reason] = []
        if scheduler.isSuspended { reasons.append(.suspended) }
        if scheduler.isInBackground, !entry.traits.contains(.mayContinueInBackground) { reasons.append(.background) }
        if scheduler.runningCount >= scheduler.width { reasons.append(.width(scheduler.width)) }
        return reasons
    }
}
