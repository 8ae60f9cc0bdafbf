import ArgumentParser
import Foundation
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography

/// One run of a command: the manager, the delegate that answers its questions, and the report.
struct Session: Sendable {
    let manager: ApplicationSyncManager
    let backend: any RemoteBackend
    let report: Report
    let progressBar: ProgressBar
    private let delegate: CommandDelegate
    private let interruption: Interruption

    init(
        _ options: CommonOptions,
        encryption: EncryptionOptions? = nil,
        cost: PasswordCostOptions? = nil,
        recreates: Bool = false,
        interruption: Interruption
    ) async throws {
        let password = try options.password()
        let wanted = encryption?.encrypt ?? (password != nil ? true : nil)
        if encryption?.encrypt == false, password != nil {
            throw UsageError("A password and --no-encrypt contradict each other. Give only one of them.")
        }
        delegate = await CommandDelegate(encrypts: wanted, password: password, recreates: recreates)
        backend = try options.backend()
        var manager = ApplicationSyncManager(
            application: try options.application(),
            clientDescription: options.deviceDescription,
            requiresEncryption: wanted == true,
            backend: backend,
            state: try options.stateDirectory(),
            supervisor: interruption.supervisor,
            delegate: delegate
        )
        // The backends retry requests. What fails in spite of that is reported at once, by an exit status for scripts.
        manager.retry = RetryPolicy(maximumAttempts: 1)
        manager.passwordParameters = (encryption?.cost ?? cost)?.parameters
        self.manager = manager
        self.interruption = interruption
        report = Report(options.output)
        progressBar = ProgressBar(options.output)
    }

    /// Waits for an operation, showing its progress.
    func value<Output: Sendable>(of handle: OperationHandle<Output>) async throws -> Output {
        await progressBar.follow(handle.events)
        // The manager holds the delegate weakly, so it's held here until the operation has ended.
        defer { withExtendedLifetime(delegate) {} }
        return try await interruption.value(of: handle)
    }

    /// Waits for the keychain's synchronization, whose failure is only a warning: the command's own work is complete.
    func finish(_ keychain: OperationHandle<KeychainSynchronization>) async {
        do {
            for warning in try await interruption.value(of: keychain).warnings { report.warning(warning) }
        } catch let error as StoreSyncError where error.code == .busy {
            // Another command is synchronizing the keychain.
        } catch is CancellationError {
            // Interrupted after the commit: the command has succeeded.
        } catch {
            let failure = Failure(error, signal: nil)
            report.warning("The keychain's items were not synchronized: \(failure.message) [\(failure.code)]")
        }
    }

    /// Runs a command's body with a supervisor that signals cancel, and exits with the status of a reported error.
    static func run(
        _ output: OutputOptions,
        _ body: @Sendable (Interruption) async throws -> Void
    ) async throws {
        let supervisor = OperationSupervisor(OperationSupervisor.Configuration(logger: output.logger))
        let interruption = Interruption(cancelling: supervisor)
        do {
            try await body(interruption)
        } catch {
            let code = error as? ExitCode ?? report(error, output, interruption)
            // The error may be that of an operation that hadn't started, while another one still cleans up: it removes files,
            // and switches the terminal's echo on.
            await supervisor.shutdown(grace: .seconds(10))
            throw code
        }
    }

    /// Reports an error, and returns the status with which the command exits.
    private static func report(_ error: any Error, _ output: OutputOptions, _ interruption: Interruption) -> ExitCode {
        let failure = Failure(error, signal: interruption.signal)
        if output.verbose {
            // A line for the error, and one for each cause.
            for (depth, line) in "\(error)".components(separatedBy: "\n└ ").enumerated() {
                Report.standardError(depth == 0 ? line : "└ " + line)
            }
        }
        // After the result's error, an object would be the second one, or follow a part of the first.
        let isJSON = output.json && !(error is OutputError) && !StandardOutput.isCut
        Report(isJSON: isJSON, isQuiet: output.quiet).failure(code: failure.code, message: failure.message)
        return ExitCode(failure.status)
    }
}

/// Answers the manager's questions from the options, or asks the user at the terminal.
@MainActor
final class CommandDelegate: ApplicationSyncDelegate {
    private let encrypts: Bool?
    private let password: Password?
    private let recreates: Bool

    init(encrypts: Bool?, password: Password?, recreates: Bool) {
        self.encrypts = encrypts
        self.password = password
        self.recreates = recreates
    }

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        if encrypts == false { return .unencrypted }
        switch question {
        case .newApplication:
            if encrypts == nil {
                guard Terminal.isInteractive else {
                    throw undecided("\(application) is new: say whether to encrypt it, with --encrypt or --no-encrypt.")
                }
                guard try await Terminal.confirm("\(application) is new. Encrypt it?") else { return .unencrypted }
            }
            if let password { return .encrypted(password) }
            guard Terminal.isInteractive else { throw passwordRequired(application) }
            return .encrypted(try await Terminal.newPassword("Password for \(application)"))
        case .joiningEncrypted(let wasWrong):
            if let password {
                guard !wasWrong else { throw wrongPassword(application) }
                return .encrypted(password)
            }
            guard Terminal.isInteractive else { throw passwordRequired(application) }
            let prompt = wasWrong ? "Wrong password. Password of \(application)" : "Password of \(application)"
            return .encrypted(try await Terminal.password(prompt))
        case .joiningUnencrypted:
            guard encrypts == nil, Terminal.isInteractive,
                try await Terminal.confirm("\(application) is not encrypted. Join it anyway?")
            else {
                throw undecided(
                    """
                    \(application) is not encrypted. Join it with --no-encrypt, or name another application with --app and \
                    encrypt that.
                    """
                )
            }
            return .unencrypted
        }
    }

    private func passwordRequired(_ application: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .passwordRequired,
            "\(application) needs a password, and there is no terminal: give --password-file or STORESYNC_PASSWORD."
        )
    }

    private func wrongPassword(_ application: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(.wrongPassword, "The given password isn't that of \(application). Nothing was written.")
    }

    private func undecided(_ words: String) -> StoreSyncError { StoreSyncError(.encryptionUndecided, words) }

    func shouldRecreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool {
        if recreates { return true }
        if Terminal.isInteractive, try await Terminal.confirm("\(document) was deleted. Recreate it?") { return true }
        throw StoreSyncError(.documentDeleted, "\(document) was deleted. Push with --recreate to create it again.")
    }
}
