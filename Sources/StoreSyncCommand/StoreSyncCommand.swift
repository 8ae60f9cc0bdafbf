import ArgumentParser
import Foundation

/// `storesync`: store files on several devices, through any storage that holds files.
@main
struct StoreSyncCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "storesync",
        abstract: "Keeps a store file in step between devices, through any storage that holds files.",
        discussion: """
            Two --state directories are two devices. See what it does with `storesync demo`.
            """,
        version: "0.1.0",
        subcommands: [
            Demo.self, Push.self, Pull.self, Register.self, Status.self, Verify.self, PasswordCommand.self,
        ]
    )

    /// Parses and runs, so that errors too are one JSON object where that is asked for.
    static func main() async {
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
}
