import Foundation
import Operations
import StoreChanges
import StoreSync

/// `storesync sync --watch`.
extension Sync {
    /// Synchronizes whenever something changes, until a signal or an error ends it.
    ///
    /// A signal ends it without an error, whether a synchronization is in progress or not, unless it waits for an answer.
    func follow(_ watch: StoreWatch, _ session: Session, _ interruption: Interruption) async throws {
        let service = ServiceManager()
        defer { service.notify("STOPPING=1") }
        do {
            // The session keeps the delegate that the manager asks.
            try await interruption.run { try await follow(watch, session, service) }
        } catch is CancellationError where interruption.signal != nil && !Terminal.isUnanswered {
            // A signal is how a watch ends. The next one completes a synchronization that was in progress.
        }
        withExtendedLifetime(session) {}
    }

    private func follow(_ watch: StoreWatch, _ session: Session, _ service: ServiceManager) async throws {
        let (report, progressBar) = (session.report, session.progressBar)
        let name = URL(named: store).lastPathComponent
        var start = ContinuousClock.now
        var warnings: [String] = []
        var isReady = false
        var hasFailed = false
        defer { progressBar.show("") }
        for try await event in watch {
            switch event {
            case .began(let handle):
                start = .now
                await progressBar.follow(handle.events)
            case .synchronized(let synchronized):
                progressBar.show("")
                // What stays as it is needn't be repeated after every synchronization.
                for warning in synchronized.warnings where !warnings.contains(warning) { report.warning(warning) }
                warnings = synchronized.warnings
                if report.isJSON {
                    try self.report(synchronized, since: start, to: session)
                } else if isWorthALine(synchronized) {
                    try report.step(line(synchronized))
                }
                if !isReady { isReady = service.notify("READY=1") }
                hasFailed = false
                progressBar.show("\(name) is up to date since \(Self.time()). Watching for changes.")
            case .failed(let error, let delay):
                progressBar.show("")
                let seconds = Int((delay / .seconds(1)).rounded(.up))
                let message = "\(error.message) [\(error.code)] Retrying within \(seconds) s."
                if hasFailed { report.warning(message) } else { report.problem(message) }
                hasFailed = true
                progressBar.show("\(name) waits for a retry since \(Self.time()).")
            }
        }
    }

    private static func time() -> String { Date.now.formatted(date: .omitted, time: .standard) }

    private func isWorthALine(_ synchronized: Synchronization) -> Bool {
        synchronized.transfer != nil || !synchronized.applied.isEmpty || synchronized.publishedChanges > 0
            || synchronized.conflicts > 0
    }

    /// What a synchronization did, in one line.
    private func line(_ synchronized: Synchronization) -> String {
        var parts = [transfer(synchronized)].compactMap(\.self)
        if synchronized.publishedChanges > 0 { parts.append("published \(edits(synchronized.publishedChanges))") }
        parts += applied(synchronized)
        if synchronized.conflicts > 0 {
            parts.append("\(edits(synchronized.conflicts)) overwritten or left out: see storesync conflicts \(store)")
        }
        return "\(Date.now.formatted(.iso8601)) \(parts.joined(separator: "; "))"
    }
}
