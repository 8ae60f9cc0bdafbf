import Foundation
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import Testing
import ThreadSupport

@Suite("A simulated storage", .timeLimit(.minutes(60)))
struct SimulatedBackendTests {
    @Test("A simulated storage without faults keeps every promise", arguments: SimulatedServer.all, BackendCheck.all)
    func conforms(server: SimulatedServer, check: BackendCheck) async throws {
        let effort = BackendCheck.Effort(rounds: 3, racers: 4, listedFiles: 50)
        try await Simulation.run(seed: 1) { simulation in
            try await check.run(on: SimulatedBackend(server, clock: simulation.clock), effort: effort)
        }
    }

    /// Runs a fixed series of requests, and returns the answers, the faults, and the time that passed.
    private static func story(_ server: SimulatedServer, seed: UInt64, chance: Double) async throws -> [String] {
        try await Simulation.run(seed: seed) { simulation in
            let backend = SimulatedBackend(server, faults: server.faults(chance), seed: seed, clock: simulation.clock)
            var story: [String] = []
            for number in 0..<30 {
                let path = try RemotePath("directory/\(number % 7)")
                do {
                    try await backend.write([UInt8](repeating: UInt8(number), count: 100), to: path, when: .always)
                    story.append("\(try await backend.list(RemotePath("directory"))?.map(\.name) ?? [])")
                    story.append("\(try await backend.bytes(at: path)?.count ?? -1)")
                    if number % 5 == 4 { try await backend.move(path, to: RemotePath("moved \(number)")) }
                } catch let error as RemoteError {
                    story.append("\(error)")
                }
            }
            return story + (await backend.log) + ["\(simulation.clock.now)"]
        }
    }

    @Test(
        "A simulated storage behaves the same with the same seed, and differently with another seed",
        arguments: SimulatedServer.all
    )
    func replays(server: SimulatedServer) async throws {
        var stories: Set<[String]> = []
        for seed in 0..<5 as Range<UInt64> {
            let story = try await Self.story(server, seed: seed, chance: 0.1)
            #expect(try await Self.story(server, seed: seed, chance: 0.1) == story)
            stories.insert(story)
        }
        #expect(stories.count == 5)
    }

    @Test("A simulated read may mix two versions of a file, but bytes(at:upTo:) returns one of them")
    func mixedVersions() async throws {
        let path = try RemotePath("file")
        let all = [[UInt8](repeating: 1, count: 10), [UInt8](repeating: 2, count: 20)]
        let (streams, seen) = (Locked<Set<[UInt8]>>([]), Locked<Set<[UInt8]>>([]))
        let brokenOffCount = Locked(0)
        for seed in 0..<50 as Range<UInt64> {
            // The new version is longer, or shorter; if it is shorter, the read breaks off.
            let versions = seed < 25 ? all : all.reversed()
            try await Simulation.run(seed: seed) { simulation in
                let place = InMemoryBackend()
                try await place.write(versions[0], to: path, when: .always)
                var faults = FaultModel()
                faults.lateOpening = 1
                faults.latency = .milliseconds(5) ... .milliseconds(50)
                let (faulty, clock) = (faults, simulation.clock)
                @Sendable func device(_ seed: UInt64) -> SimulatedBackend {
                    SimulatedBackend(.apache, faults: faulty, seed: seed, storage: place, clock: clock)
                }
                async let replaced: Void = {
                    try await clock.sleep(for: .milliseconds(40))
                    try await place.write(versions[1], to: path, when: .always)
                }()
                async let streamed = device(seed).read(path)?.bytes(upTo: 100)
                async let bytes = device(seed + 100).bytes(at: path)
                _ = try await replaced
                let whole = try await #require(bytes)
                seen.withLock { _ = $0.insert(whole) }
                guard let stream = try? await streamed else { return brokenOffCount.withLock { $0 += 1 } }
                streams.withLock { _ = $0.insert(stream) }
            }
        }
        #expect(streams.withLock { $0 }.contains(Array(all[1].prefix(10))) && brokenOffCount.withLock { $0 } > 0)
        #expect(seen.withLock { $0 } == Set(all))
    }

    @Test("A file that is replaced as often as it is read is an error, instead of an endless read")
    func restlessFile() async throws {
        let path = try RemotePath("file")
        try await Simulation.run(seed: 1) { simulation in
            let (place, clock) = (InMemoryBackend(), simulation.clock)
            try await place.write([], to: path, when: .always)
            var faults = FaultModel()
            faults.lateOpening = 1
            faults.latency = .milliseconds(5) ... .milliseconds(50)
            let backend = SimulatedBackend(.apache, faults: faults, storage: place, clock: clock)
            let writer = Task {
                for length in 1... {
                    try await clock.sleep(for: .milliseconds(3))
                    try await place.write([UInt8](repeating: 1, count: length), to: path, when: .always)
                }
            }
            let error = await #expect(throws: RemoteError.self) { try await backend.bytes(at: path) }
            writer.cancel()
            #expect(error?.code == .unavailable && error?.path == path)
            #expect(error?.message.contains("is replaced all the time") == true)
        }
    }

    /// The faults, each of which occurs in some story.
    private static let expected = [
        "the request was lost", "the reply was lost", "HTTP status 423", "HTTP status 429", "HTTP status 500",
        "HTTP status 503", "Retry-After", "aborted stream", "torn write", "is delivered twice",
        "answered from the past",
        "half a move",
    ]

    @Test("A simulated storage shows every fault of its model")
    func everyFault() async throws {
        var log = ""
        for server in SimulatedServer.all {
            for seed in 0..<10 as Range<UInt64> {
                log += try await Self.story(server, seed: seed, chance: 0.15).joined(separator: "\n")
            }
        }
        for fault in Self.expected { #expect(log.contains(fault), "\(fault)") }
    }

    @Test("A simulated storage keeps a change whose reply was lost, and carries out nothing of a lost request")
    func lostReply() async throws {
        let place = InMemoryBackend()
        let path = try RemotePath("file")
        var faults = FaultModel.none
        faults.lostReply = 1
        let backend = SimulatedBackend(faults: faults, storage: place)
        await #expect(throws: RemoteError.self) { try await backend.write([1], to: path, when: .ifAbsent) }
        #expect(try await place.bytes(at: path) == [1])
        faults = .none
        faults.lostRequest = 1
        await backend.set(faults)
        await #expect(throws: RemoteError.self) { try await backend.remove(path) }
        #expect(try await place.bytes(at: path) == [1])
    }

    @Test("A simulated storage returns stale answers, repeats changes, and has a wrong clock")
    func time() async throws {
        let place = InMemoryBackend()
        var faults = FaultModel.none
        (faults.staleListing, faults.clockSkew) = (1, .seconds(366 * 86_400))
        let backend = SimulatedBackend(faults: faults, seed: 3, storage: place)
        _ = try await backend.list(.root)
        try await backend.write([1], to: RemotePath("file"), when: .always)
        var seen: Set<Int> = []
        for _ in 0..<20 { seen.insert(try await backend.list(.root)?.count ?? -1) }
        #expect(seen == [0, 1])
        let modified = try #require(try await backend.status(of: RemotePath("file"))?.modified)
        #expect(modified.timeIntervalSinceNow > 300 * 86_400)

        faults = .none
        faults.duplicateDelivery = 1
        await backend.set(faults)
        try await backend.write([1], to: RemotePath("file"), when: .always)
        await backend.set(.none)
        try await backend.write([2], to: RemotePath("file"), when: .always)
        for _ in 0..<10 { _ = try await backend.status(of: .root) }
        #expect(try await place.bytes(at: RemotePath("file")) == [1])
    }

    @Test("A simulated storage keeps its contents while it looks empty, whatever faults it has")
    func vanishedWithFaults() async throws {
        let path = try RemotePath("directory/file")
        try await Simulation.run(seed: 1) { simulation in
            let place = InMemoryBackend()
            try await place.write([1, 2, 3], to: path, when: .always)
            var faults = FaultModel.none
            (faults.tornWrite, faults.lateOpening) = (1, 1)
            // Its writes can be interrupted halfway.
            let backend = SimulatedBackend(.rclone, faults: faults, storage: place, clock: simulation.clock)
            await backend.vanish(.empty)
            try await backend.write([4], to: path, when: .always)
            #expect(try await backend.read(path) == nil)
            faults = .none
            faults.lostReply = 1
            for server in SimulatedServer.all where !server.movesAtOnce {
                let backend = SimulatedBackend(server, faults: faults, storage: place, clock: simulation.clock)
                await backend.vanish(.empty)
                await #expect(throws: RemoteError.self) {
                    try await backend.move(path.parent ?? .root, to: RemotePath("x"))
                }
            }
            #expect(try await place.bytes(at: path) == [1, 2, 3])
            #expect(try await place.status(of: RemotePath("x")) == nil)
        }
    }

    @Test("A simulated write returns the same item as a request for its status, also with a wrong clock")
    func skewedWrite() async throws {
        let path = try RemotePath("file")
        var faults = FaultModel.none
        faults.clockSkew = .milliseconds(-1500)
        let place = InMemoryBackend()
        let backend = SimulatedBackend(faults: faults, storage: place)
        let written = try await backend.write([1], to: path, when: .always).modified
        #expect(try await backend.status(of: path)?.modified == written)
        #expect(try await place.status(of: path)?.modified?.addingTimeInterval(-1.5) == written)
    }

    @Test("A simulated storage logs a fault with the number of its own request")
    func logNumbers() async throws {
        let backend = try await Simulation.run(seed: 1) { simulation in
            var faults = FaultModel.none
            (faults.lostReply, faults.latency) = (1, .seconds(1) ... .seconds(2))
            let backend = SimulatedBackend(faults: faults, clock: simulation.clock)
            await withTaskGroup { group in
                for number in 0..<5 { group.addTask { _ = try? await backend.remove(RemotePath("\(number)")) } }
            }
            return backend
        }
        let numbers = await backend.log.map { $0.prefix { $0 != " " } }
        #expect(numbers.sorted() == ["1", "2", "3", "4", "5"])
    }

    @Test("A simulated storage vanishes in two ways, and a device dies after a given number of requests")
    func vanishes() async throws {
        let place = InMemoryBackend()
        let backend = SimulatedBackend(storage: place)
        try await backend.write([1], to: RemotePath("file"), when: .always)
        await backend.vanish(.empty)
        #expect(try await backend.list(.root) == [])
        await backend.vanish(.unreachable)
        await #expect(throws: RemoteError.self) { try await backend.list(.root) }
        await backend.reappear()
        await backend.die(afterRequests: 1)
        #expect(try await backend.list(.root)?.count == 1)
        await #expect(throws: RemoteError.self) { try await backend.list(.root) }
        #expect(try await SimulatedBackend(storage: place).list(.root)?.count == 1)
    }
}
