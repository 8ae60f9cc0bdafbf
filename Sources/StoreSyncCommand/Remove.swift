import ArgumentParser

/// `storesync remove`: removes documents, clients, and all data of an application.
struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Removes a document, a client, or all data of an application.",
        subcommands: [RemoveDocument.self, RemoveClient.self, RemoveApplication.self]
    )

    func run() async throws {
        throw UsageError("Say what to remove: storesync remove document, remove client or remove application.")
    }
}

/// The confirmation of commands that remove something for all devices.
struct ConfirmationOptions: ParsableArguments {
    @Flag(help: "Don't ask.")
    var yes = false

    /// Asks a yes-or-no question, unless `--yes` was given.
    ///
    /// - Throws: ``UsageError`` if the answer is no, or if there is no terminal to ask on; ``NothingRemoved``.
    func confirm(_ question: String) async throws {
        guard try asks(question) else { return }
        guard try await answer({ try await Terminal.confirm(question) }) else {
            throw UsageError("The answer wasn't yes, so nothing was removed.")
        }
    }

    /// Asks the user to type a name, unless `--yes` was given.
    ///
    /// - Throws: ``UsageError`` if the answer is different, or if there is no terminal to ask on; ``NothingRemoved``.
    func confirm(_ question: String, byTyping name: String) async throws {
        guard try asks(question) else { return }
        let answer = try await answer { try await Terminal.line("\(question) Type its name, \(name), to confirm") }
        guard answer == name else { throw UsageError("The name wasn't \(name), so nothing was removed.") }
    }

    private func answer<Answer>(_ ask: () async throws -> Answer) async throws -> Answer {
        do {
            return try await ask()
        } catch is CancellationError {
            throw NothingRemoved()
        }
    }

    private func asks(_ question: String) throws -> Bool {
        guard !yes else { return false }
        guard Terminal.isInteractive else {
            throw UsageError("\(question) There is no terminal to answer on: confirm with --yes.")
        }
        return true
    }
}

/// The interruption of a command that was waiting for the confirmation.
struct NothingRemoved: Error {}

/// The result that the commands print.
struct RemovalResult: Encodable {
    let command: String
    let application: String
    var document: String?
    var client: String?
}
