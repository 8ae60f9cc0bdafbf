import Foundation
import Testing
import ThreadSupport

@testable import Operations

/// Runs `body` with a directory in which supervisors create temporary ones.
private func withPlace<Result>(
    _ body: nonisolated(nonsending) (URL) async throws -> Result
) async throws -> Result {
    let place = FileManager.default.temporaryDirectory
        .appending(path: "temporary-directories-\(UUID().uuidString)", directoryHint: .isDirectory)
    try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: place) }
    return try await body(place)
}

private func supervisor(in place: URL, width: Int = 4) -> OperationSupervisor {
    OperationSupervisor(.init(width: width, temporaryDirectory: place))
}

/// Runs an operation that asks for a temporary directory.
private func runOperation(in place: URL) async throws {
    try await supervisor(in: place).add(Probe { _ = try await $0.temporaryDirectory() }).value
}

private func names(in directory: URL) throws -> Set<String> {
    Set(try FileManager.default.contentsOfDirectory(atPath: directory.path))
}

/// Kills another process in the middle of an operation with a temporary directory.
///
/// - Returns: The directory that the process left behind.
private func leaveDirectory(in place: URL) async throws -> URL {
    let former = try names(in: place)
    await #expect(processExitsWith: .signal(SIGKILL)) { [place = place as URL] in
        let operation = Probe { context in
            let directory = try await context.temporaryDirectory()
            let folder = directory.appending(path: "folder/inner")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try Data("plaintext".utf8).write(to: folder.appending(path: "store"))
            kill(getpid(), SIGKILL)
        }
        try await supervisor(in: place).add(operation).value
    }
    let left = try names(in: place).subtracting(former).map { place.appending(path: $0) }
    return try #require(left.first { FileManager.default.fileExists(atPath: $0.appending(path: "folder").path) })
}

@Suite("Temporary directories of operations", .timeLimit(.minutes(60)))
struct TemporaryDirectoryTests {
    @Test("The directory of a killed process is removed by the next operation that asks for one")
    func killed() async throws {
        try await withPlace { place in
            for _ in 0..<2 { _ = try await leaveDirectory(in: place) }
            try await runOperation(in: place)
            #expect(try names(in: place).isEmpty)
        }
    }

    @Test("A sweep removes what a killed sweep left behind")
    func halfSwept() async throws {
        try await withPlace { place in
            let left = try await leaveDirectory(in: place)
            try FileManager.default.removeItem(at: left)
            try await runOperation(in: place)
            #expect(try names(in: place).isEmpty)
        }
    }

    @Test("Each attempt of a retried operation has an empty directory of its own")
    func attempts() async throws {
        try await withPlace { place in
            var options = OperationOptions()
            options.retry = RetryPolicy(maximumAttempts: 3, initialDelay: .zero)
            let handle = supervisor(in: place).add(
                Probe { context in
                    let directory = try await context.temporaryDirectory()
                    let left = try FileManager.default.contentsOfDirectory(atPath: directory.path)
                    #expect(left.isEmpty, "attempt \(context.attempt)")
                    try Data("plaintext".utf8).write(to: directory.appending(path: "store"))
                    if context.attempt < 3 { throw ProbeError() }
                },
                options: options
            )
            try await handle.value
            let left = try names(in: place)
            #expect(left.isEmpty)
        }
    }

    @Test("An operation leaves nothing behind, however it ends", arguments: ["finish", "fail", "cancel"])
    func endings(ending: String) async throws {
        try await withPlace { place in
            let handle = supervisor(in: place).add(
                Probe { context in
                    let directory = try await context.temporaryDirectory()
                    let folder = directory.appending(path: "folder")
                    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                    try Data("plaintext".utf8).write(to: folder.appending(path: "store"))
                    if ending == "fail" { throw ProbeError() }
                    if ending == "cancel" { throw CancellationError() }
                }
            )
            _ = await handle.result
            let left = try names(in: place)
            #expect(left.isEmpty)
        }
    }

    @Test("The directory of a running operation stays when an operation of this or another process sweeps")
    func living() async throws {
        try await withPlace { place in
            let gate = Gate()
            let living = supervisor(in: place).add(
                Probe { context in
                    let directory = try await context.temporaryDirectory()
                    try Data("plaintext".utf8).write(to: directory.appending(path: "store"))
                    try await gate.wait()
                    return try Data(contentsOf: directory.appending(path: "store"))
                }
            )
            await gate.arrival()
            let present = try names(in: place)
            try await runOperation(in: place)
            #expect(try names(in: place) == present)
            await #expect(processExitsWith: .success) { [place = place as URL] in try await runOperation(in: place) }
            #expect(try names(in: place) == present)
            gate.open()
            #expect(try await living.value == Data("plaintext".utf8))
            #expect(try names(in: place).isEmpty)
        }
    }

    @Test("Operations that create and sweep directories concurrently never remove each other's")
    func concurrent() async throws {
        try await withPlace { place in
            try await withThrowingTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        let supervisor = supervisor(in: place, width: 8)
                        let operations = (0..<50).map { number in
                            Probe { context in
                                let file = try await context.temporaryDirectory().appending(path: "file")
                                try Data("\(number)".utf8).write(to: file)
                                for _ in 0..<4 { await Task.yield() }
                                #expect(try Data(contentsOf: file) == Data("\(number)".utf8))
                            }
                        }
                        for handle in supervisor.add(operations) { try await handle.value }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try names(in: place).isEmpty)
        }
    }

    @Test("A lock that is swept before it is locked is created again")
    func sweptWhileMade() async throws {
        try await withPlace { place in
            var sweeps = 0
            let made = try TemporaryDirectory(in: place) {
                sweeps += 1
                if sweeps == 1 { try? TemporaryDirectory(in: place).remove() }
            }
            #expect(sweeps == 2)
            let present = try names(in: place)
            #expect(present == [made.url.lastPathComponent, "\(made.url.lastPathComponent).lock"])
            try await runOperation(in: place)
            #expect(try names(in: place) == present)
            made.remove()
            #expect(try names(in: place).isEmpty)
        }
    }

    @Test("A symbolic link that replaces a directory or a lock stays, and its target is untouched")
    func plantedLinks() async throws {
        try await withPlace { place in
            let precious = try precious(in: place)
            _ = try await leaveDirectory(in: place)
            let left = try names(in: place).subtracting([precious.lastPathComponent])
            for name in left {
                let url = place.appending(path: name)
                let isDirectory = FileManager.default.fileExists(atPath: url.appending(path: "folder").path)
                try FileManager.default.removeItem(at: url)
                try FileManager.default.createSymbolicLink(
                    at: url,
                    withDestinationURL: isDirectory ? precious : precious.appending(path: "file")
                )
                try await runOperation(in: place)
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: url.path)
                #expect(target != nil)
                #expect(try Data(contentsOf: precious.appending(path: "file")) == Data("precious".utf8))
            }
            #expect(left.count == 2)
        }
    }

    @Test("A symbolic link in a removed directory isn't followed")
    func linkInside() async throws {
        try await withPlace { place in
            let precious = try precious(in: place)
            for name in ["link", "folder/link"] {
                let left = try await leaveDirectory(in: place)
                try FileManager.default.createSymbolicLink(
                    at: left.appending(path: name),
                    withDestinationURL: precious
                )
            }
            try await runOperation(in: place)
            #expect(try names(in: place) == [precious.lastPathComponent])
            #expect(try Data(contentsOf: precious.appending(path: "file")) == Data("precious".utf8))
        }
    }

    @Test("Files with other names stay")
    func foreignNames() async throws {
        try await withPlace { place in
            let left = try await leaveDirectory(in: place)
            let lock = try #require(try names(in: place).subtracting([left.lastPathComponent]).first)
            let prefix = left.lastPathComponent.dropLast(UUID().uuidString.count)
            let suffix = lock.dropFirst(left.lastPathComponent.count)
            let foreign: Set = [
                "operation-\(UUID().uuidString)", "\(UUID().uuidString)\(suffix)", "\(prefix)notes\(suffix)",
                "\(prefix)\(suffix)", String(prefix), "\(prefix)\(UUID().uuidString)\(suffix).old",
            ]
            for name in foreign { try Data().write(to: place.appending(path: name)) }
            // A directory without a lock: its origin, and whether its operation still runs, are unknown.
            let directory = "\(prefix)\(UUID().uuidString)"
            try FileManager.default.createDirectory(
                at: place.appending(path: directory),
                withIntermediateDirectories: false
            )
            let pipe = "\(prefix)\(UUID().uuidString)\(suffix)"
            try #require(mkfifo(place.appending(path: pipe).path, 0o600) == 0)
            try await runOperation(in: place)
            #expect(try names(in: place) == foreign.union([directory, pipe]))
        }
    }

    @Test("Files that another user owns stay", .enabled(if: geteuid() == 0, "only root can give files to another user"))
    func foreignOwner() async throws {
        try await withPlace { place in
            let left = try await leaveDirectory(in: place)
            let present = try names(in: place)
            for name in present {
                let path = place.appending(path: name).path
                try #require(chown(path, 65534, 65534) == 0)
                try await runOperation(in: place)
                #expect(try names(in: place) == present)
                #expect(FileManager.default.fileExists(atPath: left.appending(path: "folder/inner/store").path))
                try #require(chown(path, 0, 0) == 0)
            }
            #expect(present.count == 2)
            try await runOperation(in: place)
            #expect(try names(in: place).isEmpty)
        }
    }

    @Test("The error for a directory that can't be created names the location and the reason")
    func unmakeable() async throws {
        try await withPlace { place in
            let missing = place.appending(path: "missing")
            let error = await #expect(throws: OperationError.self) { try await runOperation(in: missing) }
            #expect(error?.code == .temporaryDirectoryUnavailable)
            #expect(
                error?.message == """
                    No temporary directory could be created in \(missing.path): No such file or directory. Make that \
                    directory readable and writable, or set another one as the supervisor's temporaryDirectory.
                    """
            )
        }
    }

    /// A directory with a file that no sweep may touch.
    private func precious(in place: URL) throws -> URL {
        let precious = place.appending(path: "precious", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: precious, withIntermediateDirectories: true)
        try Data("precious".utf8).write(to: precious.appending(path: "file"))
        return precious
    }
}
