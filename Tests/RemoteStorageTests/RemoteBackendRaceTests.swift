import RemoteStorage
import Testing

/// The promises of ``RemoteBackend`` about requests at the same time.
@Suite("Racing requests", .timeLimit(.minutes(30)))
struct RemoteBackendRaceTests {
    @Test("of which one creates a file: the others are told that it is there", arguments: BackendKind.allCases)
    func oneCreates(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            for round in 0..<20 {
                let path = try RemotePath("directory-\(round)/file")
                // All have passed every check that comes before the content, then all commit.
                let meeting = Meeting(of: 8)
                let winners = try await winners(of: 8) { number in
                    let bytes = [UInt8](repeating: UInt8(number), count: 1000)
                    let content = RemoteContent(length: 1000) {
                        var rest: [UInt8]? = bytes
                        return {
                            guard let chunk = rest.take() else { return nil }
                            await meeting.arrive()
                            return chunk
                        }
                    }
                    try await backend.write(content, to: path, when: .ifAbsent)
                }
                let winner = try #require(winners.first)
                #expect(winners.count == 1)
                #expect(try await backend.bytes(at: path) == [UInt8](repeating: UInt8(winner), count: 1000))
            }
        }
    }

    @Test("of which one moves its directory to a name", arguments: BackendKind.allCases)
    func oneMoves(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            for round in 0..<20 {
                let destination = try RemotePath("published-\(round)")
                for number in 0..<8 {
                    try await backend.write([UInt8(number)], to: RemotePath("staging-\(number)/x"), when: .always)
                }
                let winners = try await winners(of: 8) { number in
                    try await backend.move(RemotePath("staging-\(number)"), to: destination)
                }
                #expect(winners.count == 1)
                #expect(try await backend.bytes(at: destination.appending("x")) == winners.map { UInt8($0) })
                #expect(try await backend.list(destination)?.count == 1)
            }
        }
    }

    @Test("of which some replace a file: readers see one version whole", arguments: BackendKind.allCases)
    func nothingIsTorn(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("file")
            let version: @Sendable (Int) -> [UInt8] = { Array(repeating: UInt8($0), count: 1 << 16 + $0 * 100) }
            try await backend.write(version(0), to: path, when: .always)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for number in 1...100 { try await backend.write(version(number), to: path, when: .always) }
                }
                for _ in 0..<2 {
                    group.addTask {
                        for _ in 0..<100 {
                            let bytes = try #require(try await backend.bytes(at: path, upTo: 1 << 24))
                            #expect(bytes == version(Int(bytes[0])))
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await backend.bytes(at: path, upTo: 1 << 24) == version(100))
        }
    }

    @Test("that make the same directories all succeed", arguments: BackendKind.allCases)
    func directories(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let winners = try await winners(of: 8) { number in
                try await backend.write([1], to: RemotePath("a/b/c/d/\(number)"), when: .ifAbsent)
            }
            #expect(winners.count == 8)
            #expect(try await backend.list(RemotePath("a/b/c/d"))?.count == 8)
        }
    }
}
