import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Task priorities and the default width", .timeLimit(.minutes(60)))
struct TaskPriorityTests {
    @Test("An operation runs at its own task priority, else at its supervisor's, whatever ran before it")
    func priorities() async throws {
        let supervisor = OperationSupervisor(.init(width: 1, taskPriority: .low, isSuspended: true))
        let given: [TaskPriority?] = [nil, .high, nil, nil, .background, .high, .high, nil]
        let handles = given.map { priority in
            supervisor.add(options: OperationOptions(taskPriority: priority)) { _ in Task.currentPriority }
        }
        supervisor.isSuspended = false
        var seen: [TaskPriority] = []
        for handle in handles { seen.append(try await handle.value) }
        #expect(seen == given.map { $0 ?? .low })
    }

    @Test("An operation with its own task priority is cancelled as any other, and shares no task")
    func cancellation() async throws {
        let supervisor = OperationSupervisor(width: 1)
        var options = OperationOptions()
        options.taskPriority = .high
        for _ in 0..<100 {
            let gate = Gate()
            let first = supervisor.add(options: options) { _ in try await gate.wait() }
            let second = supervisor.add(options: options) { _ in Task.isCancelled }
            await gate.arrival()
            first.cancel()
            #expect(try await second.value == false)
            #expect(first.state == .cancelled)
        }
        // Also in a task that inherits the caller's values, and in a phase.
        options.inheritsTaskLocals = true
        let inheriting = supervisor.add(options: options) { _ in Task.currentPriority }
        #expect(try await inheriting.value == .high)
    }

    @Test("An operation that inherits task-local values or runs alone has the configuration's task priority too")
    func ownTasks() async throws {
        let configuration = OperationSupervisor.Configuration(width: 1, taskPriority: .low)
        let options = OperationOptions(inheritsTaskLocals: true)
        let inheriting = OperationSupervisor(configuration).add(options: options) { _ in Task.currentPriority }
        #expect(try await inheriting.value == .low)
        let alone = try await Probe { _ in Task.currentPriority }.run(configuration: configuration)
        #expect(alone == .low)
    }

    @Test("A supervisor without a width of its own takes the system's, which is at least 4")
    func defaultWidth() {
        #expect(OperationSupervisor.defaultWidth >= 4)
        #expect(OperationSupervisor().width == OperationSupervisor.defaultWidth)
        #expect(OperationSupervisor(.init(width: 3)).width == 3)
    }
}
