import Operations
import OperationsTesting
import Testing

// The code between the marks is also in the documentation.

private struct Offline: Error {}

private actor Page: Operation {
    let number: Int
    init(_ number: Int) { self.number = number }
    func main(_ context: OperationContext) async throws -> String { "page \(number)" }
}

private actor Delivery: Operation {
    let text: String
    init(_ text: String) { self.text = text }
    func main(_ context: OperationContext) async throws -> Int { text.count }
}

private actor Cleanup: Operation {
    func main(_ context: OperationContext) async throws {}
}

@Suite("Coming from OperationQueue", .timeLimit(.minutes(60)))
struct ComingFromOperationQueueTests {
    @Test("The OperationQueue guide's examples of adding, dependencies and outputs work")
    func adding() async throws {
        // DOC: adding
        let supervisor = OperationSupervisor(width: 2)
        let page = supervisor.add(Page(1))
        let pages = supervisor.add([Page(2), Page(3)])
        let delivery = page.then { text in Delivery(text) }
        let both = supervisor.combine(page, delivery) { text, count in Delivery("\(text): \(count)") }
        let cleanup = supervisor.add(Cleanup(), after: [delivery.ending])
        print(try await both.value)
        // DOC: end
        #expect(try await both.value == 9)
        try await cleanup.value
        #expect(try await pages[1].value == "page 3")
    }

    @Test("The OperationQueue guide's example of blocks works")
    func blocks() async throws {
        let supervisor = OperationSupervisor(width: 2)
        // DOC: blocks
        let size = supervisor.add { context in
            context.reportProgress(0.5)
            return 42
        }
        let text = size.then { size, _ in "\(size) bytes" }
        supervisor.addBarrier { _ in print("all done") }
        supervisor.add([Page(4), Cleanup()])
        // DOC: end
        #expect(try await text.value == "42 bytes")
        try await supervisor.drain()
    }

    @Test("The OperationQueue guide's example of changes after adding works")
    func changes() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        // DOC: changes
        let page = supervisor.add(Page(1))
        let cleanup = supervisor.add(Cleanup())
        try page.addDependency(cleanup.ending)
        page.priority = .veryHigh
        print(page.dependencies.map(\.name))
        page.removeDependency(cleanup)
        page.whenEnded { result in print(result) }
        // DOC: end
        #expect(page.dependencies.isEmpty)
        supervisor.isSuspended = false
        try await supervisor.drain()
    }

    @Test("The OperationQueue guide's example of controlling a supervisor works")
    func control() async throws {
        let supervisor = OperationSupervisor(width: 2)
        // DOC: control
        supervisor.width = 4
        supervisor.isSuspended = true
        let urgent = supervisor.add(Page(1), options: OperationOptions(priority: .high))
        supervisor.addBarrier(Cleanup())
        print(urgent.explain())
        supervisor.isSuspended = false
        try await supervisor.drain()
        // DOC: end
        #expect(urgent.state == .finished)
    }

    @Test("The OperationQueue guide's example of observing an operation works")
    func observing() async throws {
        let supervisor = OperationSupervisor(width: 2)
        // DOC: observing
        let delivery = supervisor.add(Delivery("text"))
        for await event in delivery.events {
            switch event {
            case .progress(let progress): print(progress.fractionCompleted)
            case .ended(let state): print(state)
            case .started, .paused, .resumed, .stalled: break
            }
        }
        // DOC: end
        #expect(delivery.isEnded)
    }

    @Test("The OperationQueue guide's example of options that a queue doesn't have works")
    func more() async throws {
        let supervisor = OperationSupervisor(width: 2)
        // DOC: options
        var options = OperationOptions(name: "the diary", userInfo: ["month": "May"])
        options.keys = ["diary"]
        options.coalescingKey = "diary"
        options.deadline = .seconds(120)
        options.retry = RetryPolicy(maximumAttempts: 5) { error in error is Offline }
        let delivery = supervisor.add(Delivery("text"), options: options)
        // DOC: end
        #expect(try await delivery.value == 4)
        #expect(delivery.name == "the diary")
        #expect(delivery.userInfo["month"] as? String == "May")
    }

    @Test("The OperationQueue guide's example of shutting down works")
    func shutdown() async throws {
        let supervisor = OperationSupervisor(width: 2)
        // DOC: shutdown
        let abandoned = await supervisor.shutdown(grace: .seconds(5))
        for operation in abandoned { print("\(operation.name) may still run") }
        // DOC: end
        #expect(abandoned.isEmpty)
        #expect((supervisor.add(Cleanup()).error as? OperationError)?.code == .shutDown)
    }
}
