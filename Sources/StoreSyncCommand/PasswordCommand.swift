import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography

/// `storesync password`: what can be done with an application's password.
struct PasswordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password",
        abstract: "Changes the password of an encrypted application.",
        subcommands: [Change.self]
    )

    /// `storesync password change`.
    struct Change: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Changes the password. Encrypts nothing anew: devices that have the keys go on.",
            discussion: """
                Whoever kept the former key file and knows the former password can still read what is there. Only a new \
                application keeps them out.
                """
        )

        @Option(
            help: ArgumentHelp("A file that holds the new password. Or STORESYNC_NEW_PASSWORD.", valueName: "file")
        )
        var newPasswordFile: String?

        @OptionGroup var options: CommonOptions

        private struct Result: Encodable {
            var command = "password change"
            let application: String
            let passwords: Int
        }

        func run() async throws {
            try await Session.run(options.output) { interruption in
                let given = try givenPassword()
                let session = try await Session(options, interruption: interruption)
                let password = if let given { given } else { try await askedPassword() }
                let count = try await session.value(of: session.manager.changePassword(to: password))
                let application = session.manager.application.rawValue
                session.report.result(
                    Result(application: application, passwords: count),
                    lines: [
                        "\(application) has another password. New devices are asked for it; those that have the keys go on."
                    ]
                )
            }
        }

        private func givenPassword() throws -> Password? {
            if let newPasswordFile { return try Password(file: newPasswordFile) }
            return try ProcessInfo.processInfo.environment["STORESYNC_NEW_PASSWORD"].map {
                try Password(Data($0.utf8), from: "STORESYNC_NEW_PASSWORD")
            }
        }

        private func askedPassword() async throws -> Password {
            guard Terminal.isInteractive else {
                throw UsageError(
                    "There is no new password, and nobody to be asked: give --new-password-file or STORESYNC_NEW_PASSWORD."
                )
            }
            return try await Terminal.newPassword("New password")
        }
    }
}
