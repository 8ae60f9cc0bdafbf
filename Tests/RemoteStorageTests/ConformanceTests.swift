import RemoteStorage
import RemoteStorageTesting
import Testing

@Suite("H3, D16: the promises of every backend, kept", .timeLimit(.minutes(60)))
struct ConformanceTests {
    @Test("in memory", arguments: BackendCheck.all)
    func memory(check: BackendCheck) async throws {
        try await check.run(on: InMemoryBackend())
    }

    @Test("in memory that claims nothing", arguments: BackendCheck.all)
    func modestMemory(check: BackendCheck) async throws {
        try await check.run(on: InMemoryBackend(capabilities: []))
    }

    @Test("in a folder", arguments: BackendCheck.all)
    func folder(check: BackendCheck) async throws {
        try await withTemporaryFolder { try await check.run(on: LocalFolderBackend(root: $0)) }
    }
}
