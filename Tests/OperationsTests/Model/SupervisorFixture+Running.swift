import OperationsTesting

@testable import Operations

// MARK: - Phases

extension SupervisorFixture {
    func begin(_ phase: Phase, of number: Int) {
        if isWrittenOff(number) { complain(number, "gets \(phase) though it was abandoned") }
        update(number) { run in
            if let current = run.current { return "gets \(phase) during \(current)" }
            run.current = phase
            if let ending = run.ending { return "gets \(phase) after it was \(ending)" }
            switch phase {
            case .start:
                defer { run.hasStarted = true }
                return run.hasStarted ? "is started twice" : nil
            case .progress(let fraction):
                guard run.hasStarted, fraction >= run.progress, fraction < 1 else {
                    return "gets progress \(fraction) after \(run.progress)"
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
            return run.current == phase ? nil : "gets another phase during \(phase)"
        }
    }

    func mainFailed(_ number: Int) {
        update(number) { run in
            run.hasFailed = true
            return nil
        }
    }

    // MARK: Rules

    /// Checks what must be true when `main` starts.
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
        for other in entries where isOlderRoot(other, than: own) {
            let isBarrier = addition.isBarrier || other.addition.isBarrier
            if isBarrier { count(\.barriers) }
            guard !other.handle.isEnded else { continue }
            if isBarrier {
                complain(number, "passes \(other.addition.number), but one of them is a barrier")
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
        // For an operation that can be joined this is the handle's identifier, which is slightly younger. That is good enough.
        other.addition.parent == nil && other.addition.supervisor == own.addition.supervisor
            && other.handle.id < own.handle.id && other.addition.options.coalescingKey == nil
    }

    /// Records that the operation starts to work or resumes.
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
        if inside.count >= maximumWidth { complain(number, "is one of \(inside.count + 1) running operations") }
        for other in inside where !other.addition.options.keys.isDisjoint(with: addition.options.keys) {
            complain(number, "runs at the same time as \(other.addition.number), with one of its keys")
        }
    }

    /// Records that the operation starts to wait, or that its work is over.
    func leave(_ number: Int) {
        update(number) { run in
            run.isInside = false
            return nil
        }
    }

    // MARK: The end

    /// Whether the operation or a dependency was cancelled, or its own work may have ended as cancelled.
    private func isCancellationDue(_ entry: Entry) -> Bool {
        let number = entry.addition.number
        return mayBeCancelled(number) || run(of: number)?.hasFailed == true
            || entry.addition.options.coalescingKey != nil
            || entry.addition.dependencies.contains { self.entry($0.number)?.handle.state == .cancelled }
    }

    /// Checks what must be true when all operations have ended, and returns all complaints.
    func finalComplaints(abandoned: Set<OperationID>) -> [String] {
        for entry in entries {
            let (number, state) = (entry.addition.number, entry.handle.state)
            if !state.isEnded { complain(number, "is \(state) after the end") }
            if state == .cancelled, !isCancellationDue(entry) { complain(number, "is cancelled without a reason") }
            guard let run = run(of: number) else { continue }
            if run.endingCount > 1 { complain(number, "ended \(run.endingCount) times") }
            guard !abandoned.contains(entry.handle.id), entry.addition.options.coalescingKey == nil else { continue }
            if run.hasStarted, run.endingCount != 1 { complain(number, "was started and not ended") }
            // This applies to deadlines too: a deadline turns the cancellation into a failure before the ending phase.
            if run.hasStarted, run.ending != state {
                complain(number, "got the ending phase \(String(describing: run.ending)) but is \(state)")
            }
            let fraction = entry.handle.progress.fractionCompleted
            if fraction < run.progress || (fraction == 1) != (state == .finished) {
                complain(number, "has progress \(fraction) but is \(state)")
            }
        }
        return complaints
    }
}
