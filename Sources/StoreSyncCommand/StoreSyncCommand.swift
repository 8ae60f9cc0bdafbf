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
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            var command = try parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            let isHelp = exitCode(for: error) == .success
            guard !isHelp, !(error is ExitCode), arguments.contains("--json") else { exit(withError: error) }
            Report.standard.failure(code: "usage", message: message(for: error))
            Foundation.exit(ExitCode.validationFailure.rawValue)
        }
    }

    /// Makes the allocator keep some megabytes of freed memory.
    ///
    /// Chunks of 1 MiB are allocated and freed all the time. By default glibc returns each to the system, which then
    /// clears its pages again. That takes an eighth of the time of a pull.
    private static func keepFreedMemory() {
        #if canImport(Glibc)
        _ = mallopt(M_TRIM_THRESHOLD, 64 << 20)
        _ = mallopt(M_MMAP_THRESHOLD, 32 << 20)
        #endif
    }
}
