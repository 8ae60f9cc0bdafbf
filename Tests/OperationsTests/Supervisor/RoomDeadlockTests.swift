import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Only waits for room that would never end are refused", .timeLimit(.minutes(60)))
struct RoomDeadlockTests {
    private func supervisor(_ simulation: Simulation, capacity: Int) -> OperationSupervisor {
        var configuration = OperationSupervisor.Configuration(simulation)
        configuration.capacity = capacity
        return OperationSupervisor(configuration)
    }

    private func code(_ result: Result<Void, any Error>) -> OperationError.Code? {
        guard case .failure(let error) = result else { return nil }
        return (error as? OperationError)?.code
    }

    @Test("D2: A wait for room is refused if the only other operation depends on the waiting one, or awaits it later")
    func others() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = supervisor(simulation, capacity: 2)
                let gate = Gate()
                let waiting = supervisor.add(
                    Probe { _ in
                        try await gate.wait()
                        _ = try await supervisor.addWhenRoom(Probe { _ in })
                    }
                )
                let other =
                    seed.isMultiple(of: 2)
                    ? supervisor.add(Probe { _ in }, after: [waiting.ending])
                    : supervisor.add(Probe { _ in _ = await waiting.result })
                gate.open()
                #expect(await code(waiting.result) == .wouldDeadlock)
                #expect(await code(other.result) == nil)
                try await supervisor.drain()
            }
        }
    }

    @Test("D2: One of two waits for room is refused if the operations of two supervisors block each other")
    func acrossSupervisors() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisors = (0..<2).map { _ in supervisor(simulation, capacity: 2) }
                let gate = Gate()
                let waiting = supervisors.map { supervisor in
                    supervisor.add(
                        Probe { _ in
                            try await gate.wait()
                            _ = try await supervisor.addWhenRoom(Probe { _ in })
                        }
                    )
                }
                for (supervisor, other) in zip(supervisors, waiting.reversed()) {
                    supervisor.add(Probe { _ in }, after: [other.ending])
                }
                gate.open()
                let codes = await [code(waiting[0].result), code(waiting[1].result)]
                // When the refused operation has ended, the other one has room.
                #expect(codes.count { $0 == .wouldDeadlock } == 1)
                for supervisor in supervisors { try await supervisor.drain() }
            }
        }
    }

    @Test("Children that wait for room aren't refused while another operation can end")
    func children() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = supervisor(simulation, capacity: 2)
                let gate = Gate()
                supervisor.add(Probe { _ in try await gate.wait() })
                let arrivals = Locked(0)
                let parent = supervisor.add(
                    Probe { context in
                        let children = try (0..<2).map { _ in
                            try context.addChild(
                                Probe { _ in
                                    arrivals.withLock { $0 += 1 }
                                    _ = try await supervisor.addWhenRoom(Probe { _ in })
                                }
                            )
                        }
                        for child in children { try await child.value }
                    }
                )
                while arrivals.withLock({ $0 }) < 2 || supervisor.runningCount > 1 { await Task.yield() }
                gate.open()
                #expect(await code(parent.result) == nil)
                try await supervisor.drain()
            }
        }
    }

    @Test("D2: Room reserved for a parent isn't room for the child that holds its key", arguments: [false, true])
    func promisedToParent(childIsFirst: Bool) async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = supervisor(simulation, capacity: 2)
                let (room, start, inChild) = (Gate(), Gate(), Gate())
                let options = OperationOptions(keys: ["a"])
                let other = supervisor.add(Probe { _ in try await room.wait() })
                let parent = supervisor.add(
                    Probe { context in
                        _ = try context.addChild(
                            Probe { _ in
                                inChild.open()
                                try await start.wait()
                                _ = try await supervisor.addWhenRoom(Probe { _ in })
                            },
                            options: options
                        )
                        _ = try await supervisor.addWhenRoom(Probe { _ in })
                    },
                    options: options
                )
                try await inChild.wait()
                for gate in childIsFirst ? [start, room] : [room, start] {
                    gate.open()
                    for _ in 0..<20 { await Task.yield() }
                }
                #expect(await code(other.result) == nil)
                #expect(await code(parent.result) == nil)
                try await supervisor.drain()
            }
        }
    }

    @Test("D2: A wait for room in another supervisor is refused if all operations there wait for the waiting one")
    func elsewhere() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let here = OperationSupervisor(.init(simulation))
                let there = supervisor(simulation, capacity: 1)
                let gate = Gate()
                let waiting = here.add(
                    Probe { _ in
                        try await gate.wait()
                        _ = try await there.addWhenRoom(Probe { _ in })
                    }
                )
                let other = there.add(Probe { _ in _ = await waiting.result })
                gate.open()
                #expect(await code(waiting.result) == .wouldDeadlock)
                #expect(await code(other.result) == nil)
                try await there.drain()
            }
        }
    }

    @Test("An operation that waits for room in another supervisor releases its slot too")
    func roomElsewhere() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let here = OperationSupervisor(.init(simulation, width: 1))
            let there = supervisor(simulation, capacity: 1)
            let gate = Gate()
            let needed = Locked<OperationHandle<Void>?>(nil)
            there.add(
                Probe { _ in
                    try await gate.wait()
                    try await needed.withLock { $0 }?.value
                }
            )
            let waiting = here.add(Probe { _ in _ = try await there.addWhenRoom(Probe { _ in }) })
            needed.withLock { $0 = here.add(Probe { _ in }) }
            gate.open()
            #expect(await code(waiting.result) == nil)
            try await there.drain()
        }
    }
}
