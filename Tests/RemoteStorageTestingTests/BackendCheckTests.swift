import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import Testing

@Suite("The conformance suite", .timeLimit(.minutes(60)))
struct BackendCheckTests {
    /// A storage that refuses its first write before it reads the content.
    private actor HastyBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend = InMemoryBackend()
        private var hasRefused = false

        @discardableResult
        func write(
            _ content: RemoteContent,
            to path: RemotePath,
            when condition: WriteCondition
        ) async throws -> RemoteItem {
            guard hasRefused else {
                hasRefused = true
                throw RemoteError.alreadyExists(path)
            }
            return try await base.write(content, to: path, when: condition)
        }
    }

    @Test("The conformance suite ends a race in which the backend refuses a write before it reads the content")
    func earlyRefusal() async throws {
        try await Simulation.run(seed: 1) { _ in
            try await BackendCheck.exclusiveCreate.run(on: HastyBackend())
        }
    }

    @Test(
        "The conformance suite lets as many requests race as its effort says",
        arguments: [BackendCheck.concurrentRequests, .exclusiveCreate]
    )
    func manyRacers(check: BackendCheck) async throws {
        try await Simulation.run(seed: 1) { _ in
            try await check.run(on: InMemoryBackend(), effort: BackendCheck.Effort(rounds: 1, racers: 256))
        }
    }

    @Test("The conformance suite limits its effort to numbers that make sense")
    func effort() {
        let (low, high) = (
            BackendCheck.Effort(rounds: 0, racers: -1, listedFiles: -1), BackendCheck.Effort(racers: 257)
        )
        #expect((low.rounds, low.racers, low.listedFiles) == (1, 2, 0))
        #expect(high.racers == 256)
    }
}
