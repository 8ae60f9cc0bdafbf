import OperationsTesting

@testable import Operations

// MARK: - Phases

extension SupervisorWorld {
    func begin(_ phase: Phase, of number: Int) {
        if isWrittenOff(number) { complain(number, "is told of \(phase) though it was written off") }
        update(number) { run in
            if let current = run.current { return "is told of \(phase) during \(current)" }
            run.current = phase
            if let ending = run.ending { return "is told of \(phase) after it was \(ending)" }
            switch phase {
            case .start:
                defer { run.hasStarted = true }
                return run.hasStarted ? "is started twice" : nil
            case .progress(let fraction):
                guard run.hasStarted, fraction >= run.progress, fraction < 1 else {
                    return "is told of progress \(fraction) after \(run.progress)"
                }
                run.progress = fraction
                return nil
            case .end(let ending):
                run.ending = ending
                run.endingCount += 1
                return run.hasStarted && !run.isInside ? nil : "ends before its work is over"
            }
        }
    }

    func end(_ phase: Phase, of number: Int) {
        update(number) { run in
            defer { run.current = nil }
            return run.current == phase ? nil : "is told of something during \(phase)"
        }
    }

    func mainFailed(_ number: Int) {
        update(number) { run in
            run.hasFailed = true
            return nil
        }
    }

    // MARK: Rules

    /// What must be true when the work begins.
    func beginMain(_ number: Int) {
        count(\.runs)
        update(number) { $0.hasStarted && $0.ending == nil ? nil : "runs before its start or after its end" }
        guard let addition = addition(number), let own = entry(number) else { return }
        for dependency in addition.dependencies where addition.options.coalescingKey == nil {
            guard let state = entry(dependency.number)?.handle.state else { continue }
            if !state.isEnded || !dependency.onlyWaits && state != .finished {
                complain(number, "runs though \(dependency.number), on which it depends, is \(state)")
            }
        }
        guard addition.parent == nil, run(of: number)?.hasFailed != true else { return }
        for other in entries where isOlderRoot(other, than: own) && !other.handle.isFinished {
            if addition.isBarrier || other.addition.isBarrier {
                complain(number, "passes \(other.addition.number), and one of them is a barrier")
            }
            // D2: keys are kept through pauses and retries.
            let hasRun = run(of: other.addition.number)?.hasStarted == true
            if hasRun, !other.addition.options.keys.isDisjoint(with: addition.options.keys) {
                complain(number, "has a key of \(other.addition.number), which hasn't ended")
            }
        }
    }

    private func entry(_ number: Int) -> Entry? { entries.first { $0.addition.number == number } }

    private func isOlderRoot(_ other: Entry, than own: Entry) -> Bool {
        // The identifier of one that can be joined is its handle's, which is a little younger: good enough.
        other.addition.parent == nil && other.addition.supervisor == own.addition.supervisor
            && other.handle.id < own.handle.id && other.addition.options.coalescingKey == nil
    }

    /// The operation begins to work, or goes on.
    func enter(_ number: Int) {
        guard let addition = addition(number) else { return }
        update(number) { run in
            defer { run.isInside = true }
            return run.isInside ? "runs twice at once" : nil
        }
        let inside = entries.filter { entry in
            entry.addition.supervisor == addition.supervisor && entry.addition.number != number
                && run(of: entry.addition.number)?.isInside == true
        }
        // D5
        if inside.count >= mostWidth { complain(number, "is one of \(inside.count + 1) that run") }
        for other in inside where !other.addition.options.keys.isDisjoint(with: addition.options.keys) {
            complain(number, "runs beside \(other.addition.number), with one of its keys")
        }
    }

    /// The operation begins to wait, or its work is over.
    func leave(_ number: Int) {
        update(number) { run in
            run.isInside = false
            return nil
        }
    }

    // MARK: The end

    /// Whether somebody cancelled the operation, a dependency was cancelled, or its own work ended so.
    private func isCancellationDue(_ entry: Entry) -> Bool {
        let number = entry.addition.number
        return mayBeCancelled(number) || run(of: number)?.hasFailed == true
            || entry.addition.options.coalescingKey != nil
            || entry.addition.dependencies.contains { self.entry($0.number)?.handle.state == .cancelled }
    }

    /// What must be true when all has ended.
    func finalComplaints(abandoned: Set<OperationID>) -> [String] {
        for entry in entries {
            let (number, state) = (entry.addition.number, entry.handle.state)
            if !state.isEnded { complain(number, "is \(state) after the end") }
            if state == .cancelled, !isCancellationDue(entry) { complain(number, "is cancelled, by nobody") }
            guard let run = run(of: number) else { continue }
            if run.endingCount > 1 { complain(number, "ended \(run.endingCount) times") }
            guard !abandoned.contains(entry.handle.id), entry.addition.options.coalescingKey == nil else { continue }
            if run.hasStarted, run.endingCount != 1 { complain(number, "was started and not ended") }
            // A deadline makes a failure of a cancellation before the phase is called, too.
            if run.hasStarted, run.ending != state {
                complain(number, "was told \(String(describing: run.ending)) and is \(state)")
            }
            let fraction = entry.handle.progress.fractionCompleted
            if fraction < run.progress || (fraction == 1) != (state == .finished) {
                complain(number, "has come to \(fraction) and is \(state)")
            }
        }
        return complaints
    }
}
