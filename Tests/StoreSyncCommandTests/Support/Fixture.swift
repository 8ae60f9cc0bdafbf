import Foundation
import GRDB
import Testing

/// A folder for one test, with a share and devices in it; deleted with the last reference.
final class Fixture: Sendable {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory
            .appending(path: "storesync-command-\(UUID().uuidString)", directoryHint: .isDirectory)
            .resolvingSymlinksInPath()
        for name in ["share", "temporary", "home"] {
            try FileManager.default.createDirectory(at: folder.appending(path: name), withIntermediateDirectories: true)
        }
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    /// The shared folder.
    var share: URL { folder.appending(path: "share", directoryHint: .isDirectory) }
    /// The command's temporary directory.
    var temporary: URL { folder.appending(path: "temporary", directoryHint: .isDirectory) }

    /// The device with this name.
    func device(_ name: String) throws -> Device {
        let home = folder.appending(path: name, directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        return Device(fixture: self, home: home)
    }

    var environment: [String: String] {
        toolEnvironment.merging([
            "HOME": folder.appending(path: "home").path,
            "XDG_STATE_HOME": folder.appending(path: "home/state-home").path,
            "TMPDIR": temporary.path,
        ]) { $1 }
    }

    /// Runs the command with these arguments and nothing else.
    func run(_ arguments: [String], environment added: [String: String] = [:]) async throws -> CommandResult {
        try await start(arguments, environment: added).finish()
    }

    /// Starts the command.
    func start(
        _ arguments: [String],
        environment added: [String: String] = [:],
        onTerminal: Bool = false,
        reactions: [ChildProcess.Reaction] = []
    ) throws -> ChildProcess {
        try ChildProcess(
            ChildProcess.storesync,
            arguments,
            environment: environment.merging(added) { $1 },
            onTerminal: onTerminal,
            reactions: reactions
        )
    }

    /// The manifests of every published store.
    func manifests() throws -> [String] {
        try Listing(of: share).paths.filter { $0.contains("/manifest-") }
    }

    /// The file with that name in the newest upload of the share.
    func uploaded(_ name: String) throws -> URL {
        let path = try Listing(of: share).paths.filter {
            $0.hasSuffix("/\(name)") && $0.wholeMatch(of: /.*\/[0-9]+-[0-9A-F-]{36}\/[^\/]+/) != nil
        }.max()
        return share.appending(path: try #require(path))
    }
}

/// A device: a state directory and a store.
struct Device: Sendable {
    let fixture: Fixture
    let home: URL

    var store: URL { home.appending(path: "store.sqlite") }
    var state: URL { home.appending(path: "state") }

    /// The options that every command takes, for this device.
    var options: [String] {
        ["--remote", "file://\(fixture.share.path)", "--app", "org.example.notes", "--state", state.path]
    }

    /// Runs a command as this device, with JSON.
    func run(_ arguments: String..., environment: [String: String] = [:]) async throws -> CommandResult {
        try await fixture.run(arguments + options + ["--json"], environment: environment)
    }

    /// Pushes its store, without encryption.
    func push(_ arguments: String...) async throws -> CommandResult {
        try await fixture.run(pushArguments + arguments + options + ["--json"])
    }

    /// Adds a note of some bytes to the store, and pushes it without encryption, which has to succeed.
    func push(
        adding note: String,
        bytes: Int = 0,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try write(note, bytes: bytes)
        let result = try await push()
        #expect(result.status == 0, "\(result)", sourceLocation: sourceLocation)
    }

    /// Pulls its store, without encryption.
    func pull(_ arguments: String...) async throws -> CommandResult {
        try await fixture.run(pullArguments + arguments + options + ["--json"])
    }

    var pushArguments: [String] { ["push", store.path, "--document", "notes", "--no-encrypt"] }
    var pullArguments: [String] { ["pull", store.path, "--document", "notes", "--no-encrypt"] }

    /// Adds a note of some bytes to the store, and creates the store if it doesn't exist.
    func write(_ note: String, bytes: Int = 0) throws {
        let queue = try DatabaseQueue(path: store.path)
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS note (title TEXT, body BLOB)")
            try db.execute(sql: "INSERT INTO note VALUES (?, randomblob(?))", arguments: [note, bytes])
        }
        try queue.close()
    }

    /// The titles of the notes.
    func notes() throws -> [String] {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        return try queue.read { try String.fetchAll($0, sql: "SELECT title FROM note ORDER BY rowid") }
    }
}

/// Everything below a directory, byte for byte.
struct Listing: Equatable {
    private enum Entry: Equatable {
        case directory
        case link(String)
        case file(Data)
        case other
    }

    private var entries: [String: Entry] = [:]

    init(of directory: URL) throws {
        let files = FileManager.default
        var isDirectory: ObjCBool = false
        guard files.fileExists(atPath: directory.path, isDirectory: &isDirectory), isDirectory.boolValue else { return }
        for path in try files.subpathsOfDirectory(atPath: directory.path) {
            let url = directory.appending(path: path)
            let attributes = try files.attributesOfItem(atPath: url.path)
            switch attributes[.type] as? FileAttributeType {
            case .typeDirectory: entries[path] = .directory
            case .typeRegular: entries[path] = .file(try Data(contentsOf: url))
            case .typeSymbolicLink: entries[path] = .link(try files.destinationOfSymbolicLink(atPath: url.path))
            default: entries[path] = .other
            }
        }
    }

    var paths: [String] { entries.keys.sorted() }
    var isEmpty: Bool { entries.isEmpty }
}

extension Listing {
    /// The entries outside the device's state directory.
    var withoutState: Listing { without("state") }

    func withoutState(of device: Device) -> Listing { without("\(device.home.lastPathComponent)/state") }

    private func without(_ directory: String) -> Listing {
        var listing = self
        listing.entries = entries.filter { $0.key != directory && !$0.key.hasPrefix("\(directory)/") }
        return listing
    }
}

extension Listing {
    var directories: [String] { entries.filter { $0.value == .directory }.keys.sorted() }
}

extension Fixture {
    /// Changes one byte in a new copy of the file, since fixed names may be hard links to the same file.
    func flipByte(at offset: Int, of file: URL) throws {
        var content = try Data(contentsOf: file)
        content[offset] ^= 1
        try content.write(to: file, options: .atomic)
    }
}
