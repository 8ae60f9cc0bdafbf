import ArgumentParser
import Foundation
import Logging
import RemoteStorage
import StoreSync
import SyncCryptography

/// The options of every command that uses a remote.
struct CommonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Where the data is: file:///path, webdavs://user@host:port/path, s3://bucket/prefix. Or STORESYNC_REMOTE.",
            valueName: "url"
        )
    )
    var remote: String?

    @Option(help: ArgumentHelp("The application's identifier. Or STORESYNC_APP.", valueName: "id"))
    var app: String?

    @Option(
        help: ArgumentHelp(
            "This device's memory. Or STORESYNC_STATE; else $XDG_STATE_HOME/storesync, else ~/.local/state/storesync.",
            valueName: "dir"
        )
    )
    var state: String?

    @Option(help: ArgumentHelp("A file that holds the password. Or STORESYNC_PASSWORD.", valueName: "file"))
    var passwordFile: String?

    @Option(
        help: ArgumentHelp(
            "A human-readable description of this device. It's saved when the device is registered, and stays.",
            valueName: "text"
        )
    )
    var description: String?

    @Option(
        help: ArgumentHelp("A file that holds the WebDAV password. Or STORESYNC_WEBDAV_PASSWORD.", valueName: "file")
    )
    var remotePasswordFile: String?

    @Option(
        help: ArgumentHelp("The S3 server, if not Amazon's: https://host:port. Or AWS_ENDPOINT_URL.", valueName: "url")
    )
    var endpoint: String?

    @Option(help: ArgumentHelp("The region of an S3 bucket. Or AWS_REGION.", valueName: "name"))
    var region: String?

    @Option(help: ArgumentHelp("A certificate in PEM form to trust in addition.", valueName: "file"))
    var certificate: String?

    @Flag(help: "Send credentials to another machine without TLS.")
    var insecure = false

    @OptionGroup var output: OutputOptions

    /// The given password, which means that the user wants encryption; `nil` if none was given.
    func password() throws -> Password? {
        try Password.given(inFile: passwordFile, orIn: "STORESYNC_PASSWORD")
    }
}

/// The environment, byte by byte.
enum Environment {
    /// The value of a variable, which Foundation would repair if it isn't UTF-8: different passwords would be the same one.
    static func bytes(of variable: String) -> Data? {
        getenv(variable).map { Data(bytes: $0, count: strlen($0)) }
    }

    /// The value of a variable; `nil` if it isn't set, or is empty.
    ///
    /// - Throws: `ValidationError` if it isn't UTF-8: the repaired value would name another file.
    static func text(of variable: String) throws -> String? {
        guard let bytes = bytes(of: variable), !bytes.isEmpty else { return nil }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ValidationError("\(variable) isn't UTF-8. Rename what it names, or use a link to it.")
        }
        return text
    }
}

/// The options of every command.
struct OutputOptions: ParsableArguments {
    @Flag(
        help:
            "Print exactly one JSON object on standard output, also for errors; with --watch one for each synchronization."
    )
    var json = false

    @Flag(help: "Print nothing but errors.")
    var quiet = false

    @Flag(help: "Print details to standard error.")
    var verbose = false

    func validate() throws {
        guard !quiet || !verbose else {
            throw ValidationError("--quiet and --verbose contradict each other. Give only one of them.")
        }
    }

    var logger: Logger {
        var logger = Logger(label: "storesync") { StreamLogHandler(label: $0, stream: LogStream()) }
        logger.logLevel = verbose ? .debug : .error
        return logger
    }
}

/// Writes log messages to standard error, each in a line: errors in them may name what a server or another device has chosen.
private struct LogStream: TextOutputStream {
    func write(_ line: String) { Report.standardError(String(line.dropLast())) }
}

/// Whether a new application is encrypted.
struct EncryptionOptions: ParsableArguments {
    @Flag(
        inversion: .prefixedNo,
        exclusivity: .exclusive,
        help: "Encrypt a new application, or leave it unencrypted; --no-encrypt also joins an unencrypted one."
    )
    var encrypt: Bool?

    @OptionGroup var cost: PasswordCostOptions
}

/// What hashing a password costs.
struct PasswordCostOptions: ParsableArguments {
    private static let mebibytes =
        PasswordParameters.interactive.memoryKibibytes >> 10...PasswordParameters.maximumMemoryKibibytes >> 10

    @Option(
        help: ArgumentHelp(
            """
            The memory that hashing a new password takes, on every device: 64 to 1024, 256 by default. A changed password \
            takes at least as much as the former one, whatever is given here.
            """,
            valueName: "MiB"
        )
    )
    var passwordMemory: Int?

    func validate() throws {
        guard passwordMemory.map(Self.mebibytes.contains) ?? true else {
            throw ValidationError("--password-memory is a number of MiB from 64 to 1024.")
        }
    }

    var parameters: PasswordParameters? {
        passwordMemory.map {
            PasswordParameters(passes: PasswordParameters.moderate.passes, memoryKibibytes: $0 << 10)
        }
    }
}

extension CommonOptions {
    /// The value of an option, or of its environment variable.
    private func value(_ option: String?, orOf variable: String, option name: String) throws -> String {
        if let option { return option }
        if let value = try Environment.text(of: variable) { return value }
        throw ValidationError("Missing \(name): give it as an option or in \(variable).")
    }

    func application() throws -> RemoteIdentifier {
        try RemoteIdentifier(value(app, orOf: "STORESYNC_APP", option: "--app"))
    }

    func backend() throws -> any RemoteBackend {
        try RemoteLocation(value(remote, orOf: "STORESYNC_REMOTE", option: "--remote")).backend(
            RemoteLocation.Access(
                endpoint: endpoint,
                region: region,
                passwordFile: remotePasswordFile,
                certificate: certificate,
                isInsecure: insecure
            )
        )
    }

    func stateDirectory() throws -> StateDirectory {
        func directory(_ path: String?) -> URL? { path.map { URL(named: $0, directoryHint: .isDirectory) } }
        // A script whose variable isn't set would act as another device.
        guard state?.isEmpty != true else { throw ValidationError("--state is empty. Name a directory.") }
        // HOME first: Foundation takes the home directory from the user database.
        let home = try directory(Environment.text(of: "HOME")) ?? URL.homeDirectory
        // The specification says so: a relative path would be another device in every working directory.
        let stateHome = try Environment.text(of: "XDG_STATE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        let base = directory(stateHome) ?? home.appending(path: ".local/state")
        let url =
            try directory(state) ?? directory(Environment.text(of: "STORESYNC_STATE"))
            ?? base.appending(path: "storesync", directoryHint: .isDirectory)
        // A service may have no home directory.
        let hasHome = FileManager.default.fileExists(atPath: home.path)
        return try StateDirectory(url: url, root: hasHome ? home : nil)
    }

    var deviceDescription: String { description ?? ProcessInfo.processInfo.hostName }
}
