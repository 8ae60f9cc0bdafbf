import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Cancelling an operation anywhere", .timeLimit(.minutes(60)))
struct CancellationTests {
    /// An operation that is cancelled, in a fixture that is prepared for it.
    struct Scenario: Sendable, CustomTestStringConvertible {
        var name: String
        var prepare: @Sendable (Fixture) async throws -> Void
        var act: @Sendable (Device) -> any OperationReference
        /// The notes in the store of "a" before the operation, and after an operation that wasn't cancelled.
        var before: Set<String>?
        var after: Set<String>?

        var testDescription: String { name }
    }

    static let scenarios: [Scenario] = [
        Scenario(name: "registering an application", prepare: { _ in }, act: { $0.register() }),
        Scenario(name: "registering a document", prepare: { _ in }, act: { $0.registerDocument() }),
        Scenario(
            name: "pushing",
            prepare: { try $0.device("a").write("one") },
            act: { $0.push() },
            before: ["one"],
            after: ["one"]
        ),
        Scenario(
            name: "pulling",
            prepare: { fixture in
                try await Simulation.run(seed: 0) { simulation in
                    let (a, b) = (
                        try fixture.device("a", simulation: simulation), try fixture.device("b", simulation: simulation)
                    )
                    try await b.push(adding: "one")
                    _ = try await a.pull().value
                    try await b.push(adding: "two")
                }
            },
            act: { $0.pull() },
            before: ["one"],
            after: ["one", "two"]
        ),
    ]

    /// The moment of the cancellation.
    enum Moment: Sendable {
        /// Before the job of this number, counted from the operation's start.
        case step(Int)
        /// At the progress report of this number.
        case report(Int)

        var step: Int {
            switch self {
            case .step(let step): step
            case .report: 0
            }
        }
    }

    /// Runs a scenario and cancels it at a moment.
    ///
    /// Returns whether the moment came before the end.
    private func run(_ scenario: Scenario, _ moment: Moment, seed: UInt64) async throws -> Bool {
        let fixture = try Fixture()
        try await scenario.prepare(fixture)
        let point = CancellationPoint(step: moment.step)
        let (state, wasCancelled) = try await Simulation.run(seed: seed, cancellingAt: point) { simulation in
            let device = try fixture.device("a", simulation: simulation)
            let handle = scenario.act(device)
            // Cancels the whole pipeline, as an interrupted command does.
            let cancel: @Sendable () -> Void = { device.supervisor.cancelAll() }
            var wasReported = false
            switch moment {
            case .step: point.arm(cancel)
            case .report(let number): wasReported = await Self.watch(device, number, cancel)
            }
            try await device.supervisor.drain()
            point.disarm()
            return (handle.state, wasReported || point.wasReached)
        }
        try await check(fixture, scenario, state, "\(scenario.name), \(moment), seed \(seed)", seed)
        return wasCancelled
    }

    /// Cancels at the progress report of a number, counted over all operations of the pipeline.
    ///
    /// Returns whether there were that many reports.
    private static func watch(_ device: Device, _ number: Int, _ cancel: () -> Void) async -> Bool {
        var last: [OperationID: Double] = [:]
        var count = 0
        while !device.supervisor.operations.isEmpty {
            for operation in device.supervisor.operations {
                let fraction = operation.progress.fractionCompleted
                guard fraction > last[operation.id, default: 0] else { continue }
                last[operation.id] = fraction
                count += 1
                if count == number { cancel() }
            }
            await Task.yield()
        }
        return count >= number
    }

    private func check(
        _ fixture: Fixture,
        _ scenario: Scenario,
        _ state: OperationState,
        _ comment: String,
        _ seed: UInt64
    ) async throws {
        #expect(state == .finished || state == .cancelled, "\(comment): \(state)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.temporary.path).isEmpty, "\(comment)")
        let home = fixture.folder.appending(path: "a")
        let files = try FileManager.default.contentsOfDirectory(atPath: home.path).sorted()
        #expect(files.allSatisfy { ["state", "store.sqlite"].contains($0) }, "\(comment): \(files)")
        try await Simulation.run(seed: seed) { simulation in
            let device = try fixture.device("a", simulation: simulation)
            if let before = scenario.before, let after = scenario.after {
                let notes = try device.notes()
                #expect(notes == before || notes == after, "\(comment): \(notes)")
            }
            // A repair removes everything that is left, and the operation completes when it runs again.
            let stagings = try FileManager.default.contentsOfDirectory(atPath: fixture.share.path)
            if stagings.contains(fixture.application.rawValue) { _ = try await device.verify(repairs: true).value }
            let again = scenario.act(device)
            try await device.supervisor.drain()
            #expect(again.state == .finished, "\(comment): \(String(describing: again.error))")
            let report = try await device.verify().value
            #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(comment): \(report)")
            let left = try FileManager.default.contentsOfDirectory(atPath: fixture.share.path)
            #expect(left == [fixture.application.rawValue], "\(comment): \(left)")
            if let after = scenario.after { #expect(try device.notes() == after, "\(comment)") }
        }
    }

    @Test(
        "F17 D1: An operation cancelled at any suspension point ends once, leaves nothing, and completes if rerun",
        arguments: scenarios
    )
    func everyStep(scenario: Scenario) async throws {
        let stride = TestDepth.choose(quick: 23, deep: 1)
        for seed in TestDepth.seeds(quick: 1, deep: 20) {
            var step = 0
            // Until the operation ends before the moment comes.
            while try await run(scenario, .step(step), seed: seed) { step += stride }
            #expect(step > 10)
            print("cancelled \(scenario.name) at \(step) steps")
        }
    }

    @Test(
        "F17: An operation cancelled at any progress report ends once, leaves nothing, and completes if rerun",
        arguments: scenarios
    )
    func everyReport(scenario: Scenario) async throws {
        var number = 1
        while try await run(scenario, .report(number), seed: 7) { number += 1 }
        #expect(number > 2)
    }

    @Test(
        "F17: A password change that is cancelled anywhere ends as cancelled if nothing was changed, else finishes"
    )
    func passwordChange() async throws {
        let fixture = try Fixture(password: "correct horse")
        _ = try await fixture.device("a").register().value
        let path = fixture.hierarchy.passwordTest
        let url = fixture.share.appending(path: "\(path)")
        var endings: [OperationState: Int] = [:]
        var step = 0
        var wasReached = true
        while wasReached {
            let former = try Data(contentsOf: url)
            let point = CancellationPoint(step: step)
            let (state, version) = try await Simulation.run(seed: 1, cancellingAt: point) { [step] simulation in
                let device = try fixture.device("a", simulation: simulation)
                let change = PasswordChangeOperation(
                    to: try Password.cheap("step \(step)"),
                    of: fixture.application,
                    parameters: .interactive,
                    backend: device.backend,
                    state: device.state
                )
                let handle = device.supervisor.add(change)
                point.arm { device.supervisor.cancelAll() }
                try await device.supervisor.drain()
                point.disarm()
                return (handle.state, try device.state.pin(for: device.key)?.passwordVersion)
            }
            let present = try Data(contentsOf: url)
            #expect((present != former) == (state == .finished), "step \(step): \(state)")
            #expect(try KeyFile(Array(present)).passwordVersion == version, "step \(step)")
            endings[state, default: 0] += 1
            wasReached = point.wasReached
            step += TestDepth.choose(quick: 4, deep: 1)
        }
        print("cancelled a password change at \(step) steps: \(endings)")
        #expect(Set(endings.keys) == [.cancelled, .finished])
        // More than the single run that wasn't cancelled at all.
        #expect(endings[.finished, default: 0] > 1)
    }

    @Test(
        "F17, D1: A registration that is cancelled anywhere creates nothing, or finishes and keeps the key of what it created",
        arguments: [PasscodePlace.folder, .memoryWithoutDirectoryMoves]
    )
    func creation(place: PasscodePlace) async throws {
        var endings: [OperationState: Int] = [:]
        var (step, wasReached) = (0, true)
        while wasReached {
            let comment = "\(place), step \(step)"
            let fixture = try Fixture(password: "correct horse")
            let point = CancellationPoint(step: step)
            let (state, backend) = try await Simulation.run(seed: 1, cancellingAt: point) { simulation in
                let backend = place.backend(fixture, simulation.executor)
                let device = try fixture.device("a", backend: backend, simulation: simulation)
                let handle = device.register()
                point.arm { device.supervisor.cancelAll() }
                try await device.supervisor.drain()
                point.disarm()
                return (handle.state, backend)
            }
            let device = try fixture.device("a", backend: place == .folder ? nil : backend)
            let epoch = try await device.epoch()
            #expect((epoch != nil) == (state == .finished), "\(comment): \(state)")
            #expect(try device.state.pin(for: device.key)?.epoch == epoch, "\(comment)")
            if let epoch {
                #expect(try await device.state.masterKey(for: device.key, epoch: epoch, on: nil) != nil, "\(comment)")
            }
            endings[state, default: 0] += 1
            wasReached = point.wasReached
            step += TestDepth.choose(quick: 7, deep: 1)
        }
        print("cancelled the creation of an application, \(place), at \(step) steps: \(endings)")
        #expect(Set(endings.keys) == [.cancelled, .finished])
        // More than the single run that wasn't cancelled at all.
        #expect(endings[.finished, default: 0] > 1)
    }

    @Test(
        "A pull that is cancelled when the new store is complete puts it nowhere, and a later pull does",
        arguments: [true, false]
    )
    func beforeReplacement(hasStore: Bool) async throws {
        let fixture = try Fixture()
        let (pulling, pushing) = (try fixture.device("a"), try fixture.device("b"))
        try await pushing.push(adding: "one")
        if hasStore { _ = try await pulling.pull().value }
        try await pushing.push(adding: "two")

        let cancel = Locked<(@Sendable () -> Void)?>(nil)
        let wasCancelled = Locked(false)
        let device = try fixture.device("a") { step in
            guard step == "after pull begun" else { return }
            wasCancelled.withLock { $0 = true }
            cancel.withLock { $0 }?()
        }
        cancel.withLock { $0 = { device.supervisor.cancelAll() } }
        await #expect(throws: CancellationError.self) { try await device.pull().value }
        #expect(wasCancelled.withLock { $0 })
        #expect(FileManager.default.fileExists(atPath: device.store.path) == hasStore)
        if hasStore { #expect(try device.notes() == ["one"]) }
        _ = try await pulling.pull().value
        #expect(try device.notes() == ["one", "two"])
    }

    @Test("F17 D1: A registration that is cancelled before any of its jobs keeps the promises of every operation")
    func registrationConforms() async throws {
        let fixture = try Fixture()
        let report = try await OperationConformance.check(seeds: TestDepth.seeds(quick: 1, deep: 20)) {
            simulation in
            try fixture.device(UUID().uuidString, backend: InMemoryBackend(), simulation: simulation).registration()
        }
        #expect(report.endings[.failed] == nil && report.cancelledRuns > 50, "\(report)")
    }
}
