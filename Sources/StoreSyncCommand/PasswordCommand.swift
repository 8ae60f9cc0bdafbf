import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography

/// `storesync password`: changes an application's password.
struct PasswordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password",
        abstract: "Changes the password of an encrypted application.",
        subcommands: [Change.self]
    )

    func run() async throws {
        throw UsageError("Say what to do with the password: storesync password change.")
    }

    /// `storesync password change`.
    struct Change: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "change",
            abstract: "Changes the password. Re-encrypts nothing: devices that have the keys keep working.",
            discussion: """
                A person who kept the former key file and knows the former password can still read the data. Only a new \
                application prevents that.
                """
        )

        @Option(
            help: ArgumentHelp("A file that holds the new password. Or STORESYNC_NEW_PASSWORD.", valueName: "file")
        )
        var newPasswordFile: String?

        @OptionGroup var cost: PasswordCostOptions
        @OptionGroup var options: CommonOptions

        private struct Result: Encodable {
            var command = "password change"
            let application: String
            let passwords: Int
            /// The same, as `storesync status` calls it.
            let passwordVersion: Int
        }

        func run() async throws {
            try await Session.run(options.output) { interruption in
                let given = try givenPassword()
                let session = try await Session(options, cost: cost, interruption: interruption)
                let change = session.manager.changePassword { context in
                    if let given { return given }
                    return try await context.pause(awaiting: "the new password") {
                        try await Terminal.newPassword("New password")
                    }
                }
                let count = try await session.value(of: change)
                let application = session.manager.application.rawValue
                try session.report.result(
                    Result(application: application, passwords: count, passwordVersion: count),
                    lines: [
                        "\(application) has a new password. New devices are asked for it; devices that have the keys keep working."
                    ]
                )
            }
        }

        /// The given password; `nil` if it's to be asked for.
        private func givenPassword() throws -> Password? {
            let given = try Password.given(inFile: newPasswordFile, orIn: "STORESYNC_NEW_PASSWORD")
            guard given != nil || Terminal.isInteractive else {
                throw UsageError(
                    "The new password is missing, and there is no terminal: give --new-password-file or STORESYNC_NEW_PASSWORD."
                )
            }
            return given
        }
    }
}
