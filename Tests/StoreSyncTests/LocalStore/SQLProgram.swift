import Foundation

/// Another program that uses a store: Python's sqlite3, which runs code from a pipe while the test waits for it.
final class SQLProgram: Sendable {
    /// The exception that Python raised.
    struct Failure: Error {
        let reply: String
    }

    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    /// Opens the store as `store`, without implicit transactions and without waiting for locks.
    init(opening url: URL, mode: String? = nil) throws {
        let loop = """
            import json, sqlite3, sys
            scope = {"sqlite3": sqlite3}
            for line in sys.stdin:
                try:
                    exec(json.loads(line)[0], scope)
                    print("done", flush=True)
                except Exception as error:
                    print(error, flush=True)
            """
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", loop]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        try run("store = sqlite3.connect('\(url.path)', isolation_level=None, timeout=0)")
        if let mode { try sql("PRAGMA journal_mode = \(mode)") }
    }

    deinit {
        kill()
        // On Linux, a `Process` that has ended may keep its pipes for good.
        try? input.fileHandleForWriting.close()
        try? output.fileHandleForReading.close()
    }

    /// Runs Python code and waits until it has finished.
    func run(_ code: String) throws {
        try input.fileHandleForWriting.write(contentsOf: JSONEncoder().encode([code]) + Data("\n".utf8))
        var reply = Data()
        while reply.last != UInt8(ascii: "\n") {
            guard let byte = try output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty else { break }
            reply += byte
        }
        guard reply == Data("done\n".utf8) else { throw Failure(reply: String(decoding: reply, as: UTF8.self)) }
    }

    /// Runs one statement of SQL to its end.
    func sql(_ statement: String) throws {
        try run("store.execute(\"\(statement)\").fetchall()")
    }

    /// Kills the program, so that it can't clean up.
    func kill() {
        guard process.isRunning else { return }
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
