import Foundation

/// A file system in memory, mounted for a test.
final class Mount {
    struct Failure: Error {
        let result: CommandResult
    }

    let directory: URL
    private var path: String { directory.path }
    private var isMounted = true

    /// Mounts a file system at an empty directory; unmount it before the directory is removed.
    init(at directory: URL, options: String) async throws {
        self.directory = directory
        try await Self.run("mount", "-t", "tmpfs", "-o", options, "none", directory.path)
    }

    deinit {
        // The test has failed. The mount must not outlive it.
        guard isMounted,
            let process = try? Process.run(URL(fileURLWithPath: "/usr/bin/env"), arguments: ["umount", "--lazy", path])
        else { return }
        process.waitUntilExit()
    }

    func remount(_ options: String) async throws {
        try await Self.run("mount", "-o", "remount,\(options)", path)
    }

    /// Unmounts it, also if a file is still open there.
    ///
    /// Foundation opens files so that another test's process, if it starts at that moment, inherits the descriptor.
    func unmount() async throws {
        try await Self.run("umount", "--lazy", path)
        isMounted = false
    }

    private static func run(_ name: String, _ arguments: String...) async throws {
        let result = try await ChildProcess(
            URL(fileURLWithPath: "/usr/bin/env"),
            [name] + arguments,
            environment: toolEnvironment
        ).finish()
        guard result.status == 0 else { throw Failure(result: result) }
    }

    /// Whether this process may mount file systems.
    static let isPossible: Bool = {
        #if os(Linux)
        guard geteuid() == 0 else { return false }
        let directory = FileManager.default.temporaryDirectory.appending(path: "storesync-mount-\(UUID().uuidString)")
        guard mkdir(directory.path, 0o700) == 0 else { return false }
        defer { rmdir(directory.path) }
        guard mount("none", directory.path, "tmpfs", 0, "size=64k") == 0 else { return false }
        return umount(directory.path) == 0
        #else
        return false
        #endif
    }()
}
