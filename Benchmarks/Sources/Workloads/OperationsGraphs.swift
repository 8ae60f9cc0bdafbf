import Operations

/// An operation that does nothing.
actor NoOp: Operation {
    func main(_ context: OperationContext) {}
}

/// An operation that adds operations that do nothing as its children.
private actor Parent: Operation {
    let count: Int

    init(of count: Int) { self.count = count }

    func main(_ context: OperationContext) throws {
        for _ in 0..<count { try context.addChild(NoOp()) }
    }
}

func runOperations(_ workload: Workload, _ count: Int) async throws -> Measurement? {
    switch workload {
    case .independent: try await operationsIndependent(count)
    case .chain, .layered, .fanIn: try await operationsGraph(workload, count)
    case .priorities: try await operationsPriorities(count)
    case .children: try await operationsChildren(count)
    case .cancelAll: try await operationsCancelAll(count)
    case .submitFromOneTask: try await operationsSubmission(count, .tasks(1))
    case .submitFromTasks: try await operationsSubmission(count, .tasks(64))
    case .submitFromThreads: try await operationsSubmission(count, .threads(8))
    case .memory, .memoryOfChain: operationsMemory(workload, count)
    case .chainDropped: await operationsChainDropped(count)
    case .chainFailed: try await operationsChainFailed(count)
    case .falseCancellations: try await operationsFalseCancellations(count)
    case .seal, .open: nil
    }
}

/// Creates a supervisor that is suspended until it is resumed.
func heldBack() -> OperationSupervisor {
    OperationSupervisor(OperationSupervisor.Configuration(width: width, isSuspended: true))
}

private func operationsIndependent(_ count: Int) async throws -> Measurement {
    let supervisor = OperationSupervisor(width: width)
    return Measurement(
        try await timed {
            for _ in 0..<count { supervisor.add(NoOp()) }
            try await supervisor.drain()
        }
    )
}

private func operationsGraph(_ workload: Workload, _ count: Int) async throws -> Measurement {
    let supervisor = heldBack()
    var handles: [OperationHandle<Void>] = []
    handles.reserveCapacity(count)
    return Measurement(
        try await timed {
            for index in 0..<count {
                let dependencies = workload.dependencies(of: index, count: count).map { handles[$0] }
                handles.append(supervisor.add(NoOp(), after: dependencies))
            }
            supervisor.isSuspended = false
            try await supervisor.drain()
        }
    )
}

private func operationsPriorities(_ count: Int) async throws -> Measurement {
    let supervisor = heldBack()
    let options = OperationPriority.allCases.map { OperationOptions(priority: $0) }
    return Measurement(
        try await timed {
            for index in 0..<count { supervisor.add(NoOp(), options: options[index % options.count]) }
            supervisor.isSuspended = false
            try await supervisor.drain()
        }
    )
}

private func operationsChildren(_ count: Int) async throws -> Measurement {
    let supervisor = OperationSupervisor(width: width)
    return Measurement(try await timed { try await supervisor.add(Parent(of: count)).value })
}

private func operationsCancelAll(_ count: Int) async throws -> Measurement {
    let supervisor = heldBack()
    for _ in 0..<count { supervisor.add(NoOp()) }
    return Measurement(
        try await timed {
            supervisor.cancelAll()
            supervisor.isSuspended = false
            try await supervisor.drain()
        }
    )
}

private func operationsMemory(_ workload: Workload, _ count: Int) -> Measurement {
    let supervisor = heldBack()
    let former = allocatedBytes()
    var handles: [OperationHandle<Void>] = []
    handles.reserveCapacity(count)
    let duration = ContinuousClock().measure {
        for index in 0..<count {
            let dependencies = workload.dependencies(of: index, count: count).map { handles[$0] }
            handles.append(supervisor.add(NoOp(), after: dependencies))
        }
    }
    let bytes = Double(allocatedBytes() - former) / Double(count)
    withExtendedLifetime(handles) { supervisor.cancelAll() }
    return Measurement(duration, ["bytes": bytes])
}
