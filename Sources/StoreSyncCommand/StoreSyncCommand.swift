import ArgumentParser
import Foundation

#if canImport(Glibc)
import CLinux
#endif

/// `storesync`: synchronizes store files between devices, through any storage that holds files.
@main
struct StoreSyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storesync",
        abstract: "Keeps a store file synchronized between devices, through any storage that holds files.",
        discussion: """
            Two --state directories are two devices. See what it does with `storesync demo`.
            """,
        version: "0.1.0",
        subcommands: [
            Demo.self, Sync.self, Push.self, Pull.self, Register.self, Status.self, List.self, Verify.self, Remove.self,
            Check.self, Conflicts.self, VacuumCommand.self, PasswordCommand.self,
        ]
    )

    /// Parses the arguments and runs the command; with `--json`, a usage error is one JSON object too.
    static func main() async {
        StandardOutput.prepare()
        keepFreedMemory()
        // Foundation would take an empty one for the root.
        if Environment.bytes(of: "TMPDIR")?.isEmpty == true { unsetenv("TMPDIR") }
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            try refuseRepairedArguments()
            var command = try parse(arguments)
            try refuseRepairedDirectories()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            let isHelp = exitCode(for: error) == .success
            let isJSON = arguments.contains("--json")
            // A command that only has subcommands names them. The usage that is printed otherwise isn't that command's.
            let missing = (error as? UsageError)?.message
            guard !isHelp, !(error is ExitCode), isJSON || missing != nil else { exit(withError: error) }
            Report(isJSON: isJSON, isQuiet: false).failure(code: "usage", message: missing ?? message(for: error))
            Foundation.exit(ExitCode.validationFailure.rawValue)
        }
    }

    /// Parses arguments.
    ///
    /// A command that only has subcommands doesn't know `--json`, and says itself what is missing.
    private static func parse(_ arguments: [String]) throws -> any ParsableCommand {
        do {
            return try parseAsRoot(arguments)
        } catch {
            guard arguments.contains("--json") else { throw error }
            let command = try parseAsRoot(arguments.filter { $0 != "--json" })
            guard !(command is Self), !type(of: command).configuration.subcommands.isEmpty else { throw error }
            return command
        }
    }

    /// Refuses an argument that isn't UTF-8: Swift repairs it, and the path would be that of another file.
    private static func refuseRepairedArguments() throws {
        let arguments = UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc))
        for case let argument? in arguments.dropFirst() where String(validatingCString: argument) == nil {
            throw ValidationError(
                "The argument \(String(cString: argument)) isn't UTF-8. Rename the file, or use a link to it."
            )
        }
    }

    /// Refuses a working or temporary directory that isn't UTF-8: Foundation repairs it, and it would be another one.
    private static func refuseRepairedDirectories() throws {
        _ = try Environment.text(of: "TMPDIR")
        let directory = getcwd(nil, 0)
        defer { free(directory) }
        guard let directory, String(validatingCString: directory) == nil else { return }
        throw ValidationError(
            "The working directory \(String(cString: directory)) isn't UTF-8. Rename it, or work in another one."
        )
    }

    /// Makes the allocator keep some megabytes of freed memory, in one place for all threads.
    ///
    /// Chunks of 1 MiB are allocated and freed all the time. By default glibc returns each to the system, which then
    /// clears its pages again. That takes an eighth of the time of a pull. And by default threads have places of their own,
    /// where no other thread finds what they freed: a large import would take twice the memory.
    private static func keepFreedMemory() {
        #if canImport(Glibc)
        _ = mallopt(M_ARENA_MAX, 1)
        _ = mallopt(M_TRIM_THRESHOLD, 64 << 20)
        _ = mallopt(M_MMAP_THRESHOLD, 32 << 20)
        #endif
    }
}
