import InMemoryTracing
import OperationsTesting
import ServiceContextModule
import Testing
import ThreadSupport
import Tracing

@testable import Operations

@Suite("Operations in traces", .timeLimit(.minutes(60)))
struct TracingTests {
    private let tracer = InMemoryTracer()

    /// Creates a supervisor whose operations create spans.
    private func supervisor(_ simulation: Simulation) -> OperationSupervisor {
        withTracer(tracer) { OperationSupervisor(.init(simulation)) }
    }

    private func span(_ name: String) throws -> FinishedInMemorySpan {
        let spans = tracer.finishedSpans.filter { $0.operationName == name }
        #expect(spans.count == 1, "\(spans.count) spans \(name)")
        return try #require(spans.first)
    }

    /// An operation whose main and phases create their own spans.
    private actor Traced: Operation {
        let tracer: InMemoryTracer
        let body: @Sendable (OperationContext) async throws -> Void
        init(_ tracer: InMemoryTracer, _ body: @escaping @Sendable (OperationContext) async throws -> Void) {
            (self.tracer, self.body) = (tracer, body)
        }

        func main(_ context: OperationContext) async throws {
            tracer.withSpan("main") { _ in }
            try await body(context)
        }
        func operationDidStart(_ context: OperationContext) async { tracer.withSpan("start") { _ in } }
        func operationDidMakeProgress(_ progress: OperationProgress) async { tracer.withSpan("progress") { _ in } }
        func operationDidComplete(_ output: Void) async { tracer.withSpan("ending") { _ in } }
        func operationDidFail(_ error: any Error) async { tracer.withSpan("ending") { _ in } }
        func operationWasCancelled() async { tracer.withSpan("ending") { _ in } }
    }

    @Test(
        "An operation's run is a span, whose parent is the span in which the operation was added",
        arguments: [false, true]
    )
    func parent(inheritsTaskLocals: Bool) async throws {
        try await Simulation.run(seed: 1) { [tracer] simulation in
            let supervisor = supervisor(simulation)
            supervisor.isSuspended = true
            let options = OperationOptions(name: "upload", inheritsTaskLocals: inheritsTaskLocals)
            let handle = tracer.withSpan("button") { _ in supervisor.add(Probe { _ in }, options: options) }
            supervisor.add(Probe { _ in }, options: OperationOptions(name: "other"))
            tracer.withSpan("elsewhere") { _ in supervisor.isSuspended = false }
            try await handle.value
            // The span is complete before the handle's value is available.
            #expect(try span("upload").attributes["operation.id"]?.toSpanAttribute() == .string("\(handle.id)"))
            try await supervisor.drain()
        }
        #expect(try span("upload").parentSpanID == span("button").spanID)
        #expect(try span("upload").status == nil)
        #expect(try span("other").parentSpanID == nil)
        #expect(tracer.activeSpans.isEmpty)
    }

    @Test(
        "The spans of main, phases and children are within the run's span",
        arguments: ["finish", "fail", "cancel"]
    )
    func within(ending: String) async throws {
        try await Simulation.run(seed: 1) { [tracer] simulation in
            let supervisor = supervisor(simulation)
            let handle = supervisor.add(
                Traced(tracer) { context in
                    try context.addChild(Probe { _ in }, options: OperationOptions(name: "child"))
                    context.reportProgress(0.5)
                    try await context.clock.sleep(for: .seconds(1))
                    if ending == "fail" { throw ProbeError() }
                    if ending == "cancel" { try await context.clock.sleep(for: .seconds(100)) }
                },
                options: OperationOptions(name: "parent")
            )
            try await simulation.clock.sleep(for: .seconds(5))
            if ending == "cancel" { handle.cancel() }
            try await supervisor.drain()
        }
        let parent = try span("parent")
        for name in ["start", "main", "progress", "child", "ending"] {
            #expect(try span(name).parentSpanID == parent.spanID, "\(name)")
        }
    }

    @Test("All attempts of an operation share a span, which has the error of each attempt")
    func attempts() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = supervisor(simulation)
            supervisor.add(
                Probe { context in throw ProbeError(name: "attempt \(context.attempt)") },
                options: OperationOptions(name: "unlucky", retry: RetryPolicy(maximumAttempts: 2))
            )
            supervisor.add(
                Probe { context in if context.attempt == 1 { throw ProbeError() } },
                options: OperationOptions(name: "lucky", retry: RetryPolicy(maximumAttempts: 2))
            )
            try await supervisor.drain()
        }
        let (doomed, lucky) = (try span("unlucky"), try span("lucky"))
        #expect(doomed.errors.map { $0.error as? ProbeError } == [.init(name: "attempt 1"), .init(name: "attempt 2")])
        #expect(
            doomed.errors.map { $0.attributes["operation.attempt"]?.toSpanAttribute() } == [.int64(1), .int64(2)]
        )
        #expect(doomed.status?.code == .error)
        #expect(lucky.errors.count == 1)
        #expect(lucky.status == nil)
        #expect(lucky.attributes["operation.outcome"]?.toSpanAttribute() == .string("finished"))
    }

    @Test("A cancellation isn't recorded as an error, unless a deadline caused it")
    func cancellation() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = supervisor(simulation)
            let clock = simulation.clock
            let late = Probe { _ in try await clock.sleep(for: .seconds(100)) }
            supervisor.add(late, options: OperationOptions(name: "late", deadline: .seconds(10)))
            let cancelled = supervisor.add(
                Probe { _ in try await clock.sleep(for: .seconds(100)) },
                options: OperationOptions(name: "cancelled")
            )
            try await clock.sleep(for: .seconds(1))
            cancelled.cancel()
            try await supervisor.drain()
        }
        let (late, cancelled) = (try span("late"), try span("cancelled"))
        #expect(late.errors.map { ($0.error as? OperationError)?.code } == [.deadlineExceeded])
        #expect(late.status?.code == .error)
        #expect(cancelled.errors.isEmpty)
        #expect(cancelled.status == nil)
        #expect(cancelled.attributes["operation.outcome"]?.toSpanAttribute() == .string("cancelled"))
    }

    @Test("The span of an abandoned operation ends when the operation really does, and says that it was abandoned")
    func abandoned() async throws {
        try await Simulation.run(seed: 1) { [tracer] simulation in
            let supervisor = supervisor(simulation)
            let clock = simulation.clock
            supervisor.add(
                Probe { _ in
                    // An unstructured task isn't cancelled with the operation.
                    try await Task(executorPreference: simulation.executor) {
                        try await clock.sleep(for: .seconds(100))
                    }.value
                },
                options: OperationOptions(name: "uncooperative")
            )
            try await clock.sleep(for: .seconds(1))
            await supervisor.shutdown(grace: .seconds(1))
            #expect(tracer.finishedSpans.isEmpty)
            try await clock.sleep(for: .seconds(200))
        }
        let span = try span("uncooperative")
        #expect(span.attributes["operation.outcome"]?.toSpanAttribute() == .string("abandoned"))
        #expect(span.status?.code == .error)
    }

    @Test("Without a tracer no spans are created, and the caller's service context is still passed on")
    func withoutTracer() async throws {
        let supervisor = OperationSupervisor()
        #expect(supervisor.core.environment.tracer == nil)
        let (before, inside) = try await withTracer(tracer) {
            try await tracer.withSpan("button") { span in
                let seen = try await supervisor.add(Probe { _ in ServiceContext.current }).value
                return (span.context, seen)
            }
        }
        #expect(inside?.inMemorySpanContext == before.inMemorySpanContext)
        #expect(tracer.finishedSpans.map(\.operationName) == ["button"])
    }
}
