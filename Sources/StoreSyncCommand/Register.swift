import ArgumentParser
import Operations
import RemoteStorage
import StoreSync

/// `storesync register`: registers this device with an application.
struct Register: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "register",
        abstract: "Registers this device with an application, and creates the application if it doesn't exist."
    )

    @Flag(help: "Set up this device again, as another client, after it was deregistered.")
    var again = false

    @OptionGroup var encryption: EncryptionOptions
    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        var command = "register"
        let application: String
        let client: String
        let encrypted: Bool
        let created: Bool
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let session = try await Session(options, encryption: encryption, interruption: interruption)
            let handle = session.manager.register(registersAgain: again)
            let keychain = session.manager.synchronizeKeychain(registeredBy: handle)
            let registration = try await session.value(of: handle)
            await session.finish(keychain)
            for warning in registration.warnings { session.report.warning(warning) }
            try session.report.result(
                Result(
                    application: registration.application.rawValue,
                    client: registration.client.rawValue,
                    encrypted: registration.isEncrypted,
                    created: registration.didCreateApplication
                ),
                lines: [
                    "Registered with \(registration.application) as client \(registration.client)"
                        + (registration.didCreateApplication ? ", and created the application." : ".")
                ]
            )
        }
    }
}
