import Synchronization

/// The actor that all tasks of a group go through: it counts them, and tracks which tasks wait for which.
private actor Ledger {
    private var ended: [Bool]
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    private var missing: [Int: Int] = [:]
    private var dependents: [Int: [Int]] = [:]
    private(set) var count = 0

    init(_ count: Int) { ended = Array(repeating: false, count: count) }

    /// Does nothing, once.
    func work() { count += 1 }

    /// Returns when everything that `index` depends on has ended.
    func wait(_ index: Int, for dependencies: Dependencies) async {
        var open = 0
        for dependency in dependencies where !ended[dependency] {
            dependents[dependency, default: []].append(index)
            open += 1
        }
        guard open > 0 else { return }
        missing[index] = open
        await withCheckedContinuation { waiting[index] = $0 }
    }

    func end(_ index: Int) {
        count += 1
        ended[index] = true
        for dependent in dependents.removeValue(forKey: index) ?? [] {
            missing[dependent, default: 0] -= 1
            guard missing[dependent] == 0 else { continue }
            missing[dependent] = nil
            waiting.removeValue(forKey: dependent)?.resume()
        }
    }
}

/// Counts the tasks that wait.
private final class Census: Sendable {
    let waiting = Atomic(0)
}

/// The actor of a task that has its own actor.
private actor PlainActor {
    func main() async {}
}

func runTaskGroup(_ workload: Workload, _ count: Int) async -> Measurement? {
    switch workload {
    case .independent: await taskGroupIndependent(count)
    case .chain, .layered, .fanIn: await taskGroupGraph(workload, count)
    case .priorities: await taskGroupPriorities(count)
    case .cancelAll: await taskGroupCancelAll(count)
    case .submitFromOneTask, .submitFromTasks, .submitFromThreads, .memory, .memoryOfChain, .children, .chainDropped,
        .chainFailed, .falseCancellations, .seal, .open:
        nil
    }
}

func runTaskGroupOfActors(_ workload: Workload, _ count: Int) async -> Measurement? {
    guard workload == .independent else { return nil }
    return Measurement(
        await timed {
            await withDiscardingTaskGroup { group in
                for _ in 0..<count {
                    let operation = PlainActor()
                    group.addTask { await operation.main() }
                }
            }
        }
    )
}

private func taskGroupIndependent(_ count: Int) async -> Measurement {
    let ledger = Ledger(0)
    let duration = await timed {
        await withDiscardingTaskGroup { group in
            for _ in 0..<count { group.addTask { await ledger.work() } }
        }
    }
    return Measurement(duration, ["wrong": Double(count - (await ledger.count))])
}

private func taskGroupGraph(_ workload: Workload, _ count: Int) async -> Measurement {
    let ledger = Ledger(count)
    let duration = await timed {
        await withDiscardingTaskGroup { group in
            for index in 0..<count {
                group.addTask {
                    await ledger.wait(index, for: workload.dependencies(of: index, count: count))
                    await ledger.end(index)
                }
            }
        }
    }
    return Measurement(duration, ["wrong": Double(count - (await ledger.count))])
}

private func taskGroupPriorities(_ count: Int) async -> Measurement {
    let ledger = Ledger(0)
    let priorities: [TaskPriority] = [.background, .low, .medium, .high, .userInitiated]
    let duration = await timed {
        await withDiscardingTaskGroup { group in
            for index in 0..<count {
                group.addTask(priority: priorities[index % priorities.count]) { await ledger.work() }
            }
        }
    }
    return Measurement(duration, ["wrong": Double(count - (await ledger.count))])
}

/// Cancels tasks that all wait for an event that never comes.
private func taskGroupCancelAll(_ count: Int) async -> Measurement {
    let clock = ContinuousClock()
    let census = Census()
    let start = await withDiscardingTaskGroup(returning: ContinuousClock.Instant.self) { group in
        for _ in 0..<count {
            group.addTask {
                let continuation = Mutex<CheckedContinuation<Void, Never>?>(nil)
                await withTaskCancellationHandler {
                    await withCheckedContinuation { new in
                        continuation.withLock { $0 = new }
                        census.waiting.add(1, ordering: .relaxed)
                    }
                } onCancel: {
                    continuation.withLock { $0.take() }?.resume()
                }
            }
        }
        while census.waiting.load(ordering: .relaxed) < count { await Task.yield() }
        let start = clock.now
        group.cancelAll()
        return start
    }
    return Measurement(clock.now - start)
}
