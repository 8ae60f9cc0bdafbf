import RemoteStorage
import RemoteStorageTesting
import Testing

@Suite("H3, D16: Every backend keeps all promises", .timeLimit(.minutes(60)))
struct ConformanceTests {
    @Test("The backend in memory keeps every promise", arguments: BackendCheck.all)
    func memory(check: BackendCheck) async throws {
        try await check.run(on: InMemoryBackend())
    }

    @Test("The backend in memory keeps every promise when it claims no capabilities", arguments: BackendCheck.all)
    func modestMemory(check: BackendCheck) async throws {
        try await check.run(on: InMemoryBackend(capabilities: []))
    }

    @Test("The backend for a folder keeps every promise", arguments: BackendCheck.all)
    func folder(check: BackendCheck) async throws {
        try await withTemporaryFolder { try await check.run(on: LocalFolderBackend(root: $0)) }
    }
}
