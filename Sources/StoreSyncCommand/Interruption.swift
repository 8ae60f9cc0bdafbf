import Dispatch
import Foundation
import Operations
import ThreadSupport

/// Turns SIGINT and SIGTERM into a cancellation of everything that runs; a second one ends the process at once.
final class Interruption: Sendable {
    private let received = Locked<Int32?>(nil)
    // Sendable: made in `init` and never changed; dispatch sources are thread-safe.
    private nonisolated(unsafe) let sources: [any DispatchSourceSignal]

    /// What runs the operations that are cancelled.
    let supervisor: OperationSupervisor

    /// The signal that came, if one did.
    var signal: Int32? { received.withLock { $0 } }

    init(cancelling supervisor: OperationSupervisor) {
        self.supervisor = supervisor
        let received = received
        sources = [SIGINT, SIGTERM].map { number in
            Foundation.signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                let isFirst = received.withLock { received in
                    defer { received = received ?? number }
                    return received == nil
                }
                guard isFirst else { _exit(128 + number) }
                Terminal.interrupt()
                supervisor.cancelAll()
            }
            source.activate()
            return source
        }
    }

    /// Waits for an operation, which is cancelled too if the signal came before it was added.
    func value<Output: Sendable>(of handle: OperationHandle<Output>) async throws -> Output {
        // The signal is noted before everything is cancelled, so a handler that came too early for `handle` shows here.
        if signal != nil { supervisor.cancelAll() }
        return try await handle.value
    }
}
