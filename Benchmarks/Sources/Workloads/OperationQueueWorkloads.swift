import Foundation

private final class QueuedNoOp: Operation, @unchecked Sendable {
    override func main() {}
}

func runOperationQueue(_ workload: Workload, _ count: Int) async -> Measurement? {
    switch workload {
    case .independent: operationQueueIndependent(count)
    case .chain, .layered, .fanIn: operationQueueGraph(workload, count)
    case .priorities: operationQueuePriorities(count)
    case .cancelAll: operationQueueCancelAll(count)
    case .submitFromOneTask: await operationQueueSubmission(count, .tasks(1))
    case .submitFromTasks: await operationQueueSubmission(count, .tasks(64))
    case .submitFromThreads: await operationQueueSubmission(count, .threads(8))
    case .memory, .memoryOfChain: operationQueueMemory(workload, count)
    case .children, .chainDropped, .chainFailed, .falseCancellations, .seal, .open: nil
    }
}

private func makeQueue(isSuspended: Bool = false) -> OperationQueue {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = width
    queue.isSuspended = isSuspended
    return queue
}

private func finish(_ queue: OperationQueue) {
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
}

private func operationQueueIndependent(_ count: Int) -> Measurement {
    let queue = makeQueue()
    return Measurement(
        ContinuousClock().measure {
            for _ in 0..<count { queue.addOperation(QueuedNoOp()) }
            finish(queue)
        }
    )
}

private func operationQueueGraph(_ workload: Workload, _ count: Int) -> Measurement {
    let queue = makeQueue(isSuspended: true)
    var operations: [QueuedNoOp] = []
    operations.reserveCapacity(count)
    return Measurement(
        ContinuousClock().measure {
            for index in 0..<count {
                let operation = QueuedNoOp()
                for dependency in workload.dependencies(of: index, count: count) {
                    operation.addDependency(operations[dependency])
                }
                operations.append(operation)
                queue.addOperation(operation)
            }
            finish(queue)
        }
    )
}

private func operationQueuePriorities(_ count: Int) -> Measurement {
    let queue = makeQueue(isSuspended: true)
    let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
    return Measurement(
        ContinuousClock().measure {
            for index in 0..<count {
                let operation = QueuedNoOp()
                operation.queuePriority = priorities[index % priorities.count]
                queue.addOperation(operation)
            }
            finish(queue)
        }
    )
}

private func operationQueueCancelAll(_ count: Int) -> Measurement {
    let queue = makeQueue(isSuspended: true)
    for _ in 0..<count { queue.addOperation(QueuedNoOp()) }
    return Measurement(
        ContinuousClock().measure {
            queue.cancelAllOperations()
            finish(queue)
        }
    )
}

private func operationQueueSubmission(_ count: Int, _ submitters: Submitters) async -> Measurement {
    let queue = makeQueue()
    var operations: [QueuedNoOp] = []
    let duration = await timed {
        operations = await submit(count, from: submitters) {
            let operation = QueuedNoOp()
            queue.addOperation(operation)
            return operation
        } cancel: {
            $0.cancel()
        }
        finish(queue)
    }
    return Measurement(duration, ["wrong": Double(operations.count { !$0.isFinished })])
}

private func operationQueueMemory(_ workload: Workload, _ count: Int) -> Measurement {
    let queue = makeQueue(isSuspended: true)
    let former = allocatedBytes()
    var operations: [QueuedNoOp] = []
    operations.reserveCapacity(count)
    let duration = ContinuousClock().measure {
        for index in 0..<count {
            let operation = QueuedNoOp()
            for dependency in workload.dependencies(of: index, count: count) {
                operation.addDependency(operations[dependency])
            }
            operations.append(operation)
            queue.addOperation(operation)
        }
    }
    let bytes = Double(allocatedBytes() - former) / Double(count)
    finish(queue)
    return Measurement(duration, ["bytes": bytes])
}
