import Foundation
import Testing
import ThreadSupport

@testable import SyncCryptography

/// An executor that holds jobs until the test runs them.
private final class HoldingExecutor: TaskExecutor {
    private let jobs = Locked<[UnownedJob]>([])
    private let arrivals: AsyncStream<Void>
    private let arrive: AsyncStream<Void>.Continuation

    init() { (arrivals, arrive) = AsyncStream.makeStream() }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        arrive.yield()
    }

    var count: Int { jobs.withLock { $0.count } }

    func waitForJob() async {
        for await _ in arrivals { return }
    }

    func runAll() {
        while let job = jobs.withLock({ $0.popLast() }) { job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

@Suite("A password's key", .timeLimit(.minutes(60)))
struct PasswordKeyTests {
    private static let salt = [UInt8](repeating: 5, count: 16)

    @Test(
        "Hash parameters below the minimum or above the maximum are refused before anything is allocated",
        arguments: [
            (1, 64 << 10, CryptographyError.Code.weakParameters), (2, (64 << 10) - 1, .weakParameters),
            (0, 0, .weakParameters), (3, 8, .weakParameters), (1, 1 << 20, .weakParameters),
            (21, 64 << 10, .costlyParameters), (2, (1 << 20) + 1, .costlyParameters),
            (3, 64 << 20, .costlyParameters), (Int(UInt32.max), Int(UInt32.max), .costlyParameters),
        ]
    )
    func bounds(passes: Int, memory: Int, code: CryptographyError.Code) async throws {
        let executor = HoldingExecutor()
        let parameters = PasswordParameters(passes: passes, memoryKibibytes: memory)
        let error = await #expect(throws: CryptographyError.self) {
            try await Password("geheim").key(salt: Self.salt, parameters: parameters, executor: executor)
        }
        #expect(error?.code == code)
        #expect(executor.count == 0)
    }

    @Test("A password's hash uses at most the memory that the system lets the process allocate")
    func processMemory() throws {
        let parameters = PasswordParameters.interactive
        try parameters.validate(processMemory: 0)
        try parameters.validate(processMemory: 80 << 20)
        for memory in [1, 64 << 20, (80 << 20) - 1] as [UInt64] {
            let error = failure { try parameters.validate(processMemory: memory) }
            #expect(error?.code == .outOfMemory)
        }
    }

    @Test("A password's hash uses at most a quarter of the machine's memory")
    func machineMemory() throws {
        let parameters = PasswordParameters.moderate
        try parameters.validate(machineMemory: 1 << 30)
        #expect(failure { try parameters.validate(machineMemory: (1 << 30) - 1) }?.code == .insufficientMemory)
        try PasswordParameters(passes: 20, memoryKibibytes: 1 << 20).validate(machineMemory: 4 << 30)
        try PasswordParameters.interactive.validate(machineMemory: 256 << 20)
    }

    @Test("A password's hash leaves 64 MiB of a container's memory, and the error says what to do")
    func groupMemory() throws {
        let parameters = PasswordParameters.moderate
        try parameters.validate(groupMemory: 320 << 20)
        #expect(failure { try parameters.validate(groupMemory: 1) }?.code == .insufficientMemory)
        let error = failure { try parameters.validate(groupMemory: (320 << 20) - 1) }
        #expect(error?.code == .insufficientMemory)
        #expect(error?.message.contains("Raise its limit") == true)
    }

    #if os(Linux)
    @Test(
        "The smallest memory limit of a process's control groups counts, in both versions of control groups",
        arguments: [
            ("0::/app/worker\n", ["app/worker/memory.max": "max\n", "app/memory.max": "1000\n"], 1000),
            ("0::/app/worker\n", ["app/worker/memory.max": "500\n", "app/memory.max": "1000\n"], 500),
            ("0::/\n", ["memory.max": "700\n"], 700),
            ("0::/app\n", ["app/memory.max": "max\n"], nil),
            ("5:cpu,memory:/docker/a:b\n4:pids:/\n", ["memory/docker/a:b/memory.limit_in_bytes": "800\n"], 800),
            ("5:memory:/docker/hidden\n", ["memory/memory.limit_in_bytes": "900\n"], 900),
            ("4:pids:/\nnonsense\n", [:], nil),
        ] as [(String, [String: String], UInt64?)]
    )
    func controlGroups(membership: String, files: [String: String], limit: UInt64?) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "groups-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in files.merging(["membership": membership], uniquingKeysWith: { file, _ in file }) {
            let url = folder.appending(path: name)
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try Data(text.utf8).write(to: url)
        }
        let groups = ControlGroups(root: folder.path, membership: folder.appending(path: "membership").path)
        #expect(groups.memoryLimit == limit)
    }
    #endif

    @Test("A password hash's default is libsodium's MODERATE, the minimum its INTERACTIVE")
    func defaults() {
        #expect(PasswordParameters.moderate == PasswordParameters(passes: 3, memoryKibibytes: 262_144))
        #expect(PasswordParameters.interactive == PasswordParameters(passes: 2, memoryKibibytes: 65_536))
        let mixed = PasswordParameters(passes: 9, memoryKibibytes: 70_000)
        #expect(mixed.noWeaker(than: .moderate) == PasswordParameters(passes: 9, memoryKibibytes: 262_144))
    }

    @Test("A cancelled task stops waiting for a password's hash, and a hash that hasn't started doesn't start")
    func cancellation() async throws {
        let executor = HoldingExecutor()
        let waiting = Task {
            // A hash with such a salt would end the process.
            try await Password("geheim").key(salt: [], parameters: .interactive, executor: executor)
        }
        await executor.waitForJob()
        waiting.cancel()
        // The job is still held: the cancelled task didn't wait for it.
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(executor.count == 1)
        executor.runAll()
        #expect(executor.count == 0)
    }

    @Test("The result of an abandoned password hash is discarded, and so wiped")
    func abandonedResult() async throws {
        let ticket = Ticket<SecretBytes>()
        let waiting = Task { _ = try await ticket.value(of: "nothing") }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(ticket.isAbandoned)
        weak var weakKey: SecretBytes?
        do {
            let key = SecretBytes(randomCount: 32)
            weakKey = key
            ticket.finish(.success(key))
        }
        #expect(weakKey == nil)
    }

    @Test("A password's key is derived on the given executor, not on the cooperative pool")
    func executor() async throws {
        let executor = HoldingExecutor()
        let password = try Password("geheim")
        async let key = password.key(salt: Self.salt, parameters: .interactive, executor: executor)
        await executor.waitForJob()
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                executor.runAll()
                continuation.resume()
            }
        }
        let expected = try Argon2id.hash(password.bytes, salt: Self.salt, passes: 2, memory: 64 << 20)
        #expect(try await key == expected)
    }
}
