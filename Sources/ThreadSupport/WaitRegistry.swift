/// Records what each party of a simulation waits for, so that the report of a deadlock can name the parties.
///
/// A simulation sets its registry as the current thread's while it runs jobs. Outside simulations there is none, and a wait
/// only costs one read of a thread-local slot.
package final class WaitRegistry: Sendable {
    /// A unit of work that either runs or waits: the scenario, or the run of an operation.
    package struct Party: Sendable, Hashable {
        fileprivate var number: UInt64

        /// The party of all work that belongs to no other party.
        fileprivate static let scenario = Party(number: 0)
    }

    /// A wait that has begun and isn't over.
    package struct Wait: Sendable {
        /// The name of the party that waits.
        package var party: String
        /// What the party waits for, as a continuation of "waits for …".
        package var reason: String
    }

    private struct State {
        var parties: [Party: String] = [.scenario: "the scenario"]
        var waits: [UInt64: (party: Party, reason: String, cancel: (@Sendable () -> Void)?)] = [:]
        var faults: [String] = []
        var next: UInt64 = 0
    }

    private static let thread = ThreadLocal<WaitRegistry>()
    @TaskLocal private static var party = Party.scenario

    private let state = Locked(State())

    /// Creates a registry that knows only the scenario, which doesn't wait.
    package init() {}

    /// The registry of the simulation that runs on this thread.
    package static var current: WaitRegistry? { thread.current }

    /// Runs `body` with this registry as the current thread's.
    package func withCurrent<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try Self.thread.withValue(self, body)
    }

    /// Runs `body`, which waits for `reason`; a wait without a reason isn't registered.
    ///
    /// When the simulation is over, it calls `cancel` to end the wait, if `cancel` isn't `nil`.
    package static func waiting<Result>(
        for reason: @autoclosure () -> String?,
        cancel: (@Sendable () -> Void)? = nil,
        _ body: nonisolated(nonsending) () async throws -> Result
    ) async rethrows -> Result {
        guard let registry = current, let reason = reason() else { return try await body() }
        let ticket = registry.begin(reason, cancel)
        defer { registry.end(ticket) }
        return try await body()
    }

    /// Runs `body` as a separate party, to which all waits in `body` and its child tasks are attributed.
    package static func working<Result>(
        as name: @autoclosure () -> String,
        _ body: nonisolated(nonsending) () async -> Result
    ) async -> Result {
        guard let registry = current else { return await body() }
        let party = registry.enter(name())
        defer { registry.leave(party) }
        return await $party.withValue(party) { await body() }
    }

    /// Records forbidden behaviour that can't be refused, to be found in ``faults``.
    package static func note(_ fault: @autoclosure () -> String) {
        guard let registry = current else { return }
        let fault = fault()
        registry.state.withLock { $0.faults.append(fault) }
    }

    /// The waits that aren't over, the oldest first.
    package var waits: [Wait] {
        state.withLock { state in
            state.waits.sorted { $0.key < $1.key }.map { _, wait in
                Wait(party: state.parties[wait.party] ?? "an unknown party", reason: wait.reason)
            }
        }
    }

    /// The names of the parties that haven't ended and have no registered wait.
    package var partiesWithoutWaits: [String] {
        state.withLock { state in
            let waiting = Set(state.waits.values.map(\.party))
            return state.parties.filter { !waiting.contains($0.key) }
                .sorted { $0.key.number < $1.key.number }.map(\.value)
        }
    }

    /// The recorded faults, in order.
    package var faults: [String] { state.withLock { $0.faults } }

    /// Cancels all waits that can be cancelled, because nothing else ends them.
    ///
    /// Returns whether there were any.
    package func cancelAll() -> Bool {
        let cancels = state.withLock { state in
            state.waits.sorted { $0.key < $1.key }.compactMap { ticket, wait in
                state.waits[ticket]?.cancel = nil
                return wait.cancel
            }
        }
        for cancel in cancels { cancel() }
        return !cancels.isEmpty
    }

    private func begin(_ reason: String, _ cancel: (@Sendable () -> Void)?) -> UInt64 {
        let party = Self.party
        return state.withLock { state in
            state.next += 1
            state.waits[state.next] = (party, reason, cancel)
            return state.next
        }
    }

    private func end(_ ticket: UInt64) {
        state.withLock { $0.waits[ticket] = nil }
    }

    private func enter(_ name: String) -> Party {
        state.withLock { state in
            state.next += 1
            let party = Party(number: state.next)
            state.parties[party] = name
            return party
        }
    }

    private func leave(_ party: Party) {
        state.withLock { $0.parties[party] = nil }
    }
}
