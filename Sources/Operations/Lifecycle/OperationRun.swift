import Synchronization
import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What exists only while an operation runs: the progress pump and the temporary directory.
final class OperationRun: Sendable {
    private let environment: OperationEnvironment
    private let pumpProgress: @Sendable () async -> Void
    private let state = Mutex(State())

    private struct State {
        var pump: Task<Void, Never>?
        var temporaryDirectory: URL?
    }

    /// `pumpProgress` hands the mailbox's content to the operation until the mailbox is empty.
    init(_ environment: OperationEnvironment, pumpProgress: @escaping @Sendable () async -> Void) {
        self.environment = environment
        self.pumpProgress = pumpProgress
    }

    /// Starts the task that delivers progress.
    ///
    /// The mailbox sees to it that one delivers at a time.
    func startPump() {
        state.withLock { state in
            state.pump = Task.detached(executorPreference: environment.executor, operation: pumpProgress)
        }
    }

    /// Returns when every accepted report has been delivered.
    func finishPump() async {
        await state.withLock { $0.pump }?.value
    }

    /// The run's own directory, made when it's first asked for.
    func temporaryDirectory() async throws -> URL {
        if let existing = state.withLock({ $0.temporaryDirectory }) { return existing }
        let made = try await runBlocking(on: environment.blockingExecutor) { [place = environment.temporaryDirectory] in
            let url = (place ?? FileManager.default.temporaryDirectory)
                .appending(path: "operation-\(UUID().uuidString)", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(
                at: url,
                withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700]
            )
            return url
        }
        // Two callers may have come here at once: the first one's directory is the run's, the other is taken away.
        let (kept, surplus) = state.withLock { state -> (URL, URL?) in
            if let existing = state.temporaryDirectory { return (existing, made) }
            state.temporaryDirectory = made
            return (made, nil)
        }
        if let surplus { try? FileManager.default.removeItem(at: surplus) }
        return kept
    }

    /// Removes the temporary directory, if there is one, with everything in it.
    func removeTemporaryDirectory() async {
        guard let url = state.withLock({ $0.temporaryDirectory.take() }) else { return }
        try? await runBlocking(on: environment.blockingExecutor) {
            try FileManager.default.removeItem(at: url)
        }
    }
}
