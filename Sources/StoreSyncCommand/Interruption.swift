import Dispatch
import Foundation
import Operations
import ThreadSupport

/// Cancels all operations on SIGINT, SIGTERM or SIGHUP; a second SIGINT or SIGTERM ends the process at once.
final class Interruption: @unchecked Sendable {
    private let received = Locked<Int32?>(nil)
    /// The task that a signal cancels, besides all operations.
    private let task = Locked<Task<Void, any Error>?>(nil)
    // Sendable: created in `init` and never changed; dispatch sources are thread-safe.
    private let sources: [any DispatchSourceSignal]

    /// Runs the operations that a signal cancels.
    let supervisor: OperationSupervisor

    /// The first signal that was received, if there was one.
    var signal: Int32? { received.withLock { $0 } }

    /// The signals that interrupt a command.
    ///
    /// A parent that ignores SIGHUP, as `nohup` does, wants the command to survive the end of its terminal.
    static var signals: [Int32] {
        var action = sigaction()
        sigaction(SIGHUP, nil, &action)
        #if canImport(Darwin)
        let handler = action.__sigaction_u.__sa_handler
        #else
        let handler = action.__sigaction_handler.sa_handler
        #endif
        let isIgnored = unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
        return [SIGINT, SIGTERM] + (isIgnored ? [] : [SIGHUP])
    }

    init(cancelling supervisor: OperationSupervisor) {
        self.supervisor = supervisor
        let (received, task) = (received, task)
        sources = Self.signals.map { number in
            // A signal that comes before the source is registered must end the process, so it isn't ignored until then.
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            #if canImport(Darwin)
            // The source only observes the signal there, and the default action would still end the process.
            source.setRegistrationHandler { Foundation.signal(number, SIG_IGN) }
            #endif
            source.setEventHandler {
                let isFirst = received.withLock { received in
                    defer { received = received ?? number }
                    return received == nil
                }
                guard isFirst else {
                    // When a terminal closes, its shell and the system both send SIGHUP.
                    if number == SIGHUP { return }
                    _exit(128 + number)
                }
                Terminal.interrupt()
                supervisor.cancelAll()
                task.withLock(\.self)?.cancel()
            }
            source.activate()
            return source
        }
    }

    /// Waits for an operation, and cancels it too if a signal was received before it was added.
    func value<Output: Sendable>(of handle: OperationHandle<Output>) async throws -> Output {
        // The handler notes the signal before it cancels, so a handler that ran too early for `handle` is detected
        // here.
        if signal != nil { supervisor.cancelAll() }
        return try await handle.value
    }

    /// Runs work in a task that the first signal cancels.
    func run(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let task = Task { try await body() }
        self.task.withLock { $0 = task }
        // As for `value(of:)`: the signal may have come before the task was stored.
        if signal != nil { task.cancel() }
        try await task.value
    }
}
