import Foundation
import ThreadSupport

/// Another process, driven by lines over its standard input and output: a Python script.
///
/// Whoever waits for it blocks, so every wait is on an executor made for that.
final class PythonProcess: Sendable {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    init(_ script: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-u", "-c", script] + arguments
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        try output.fileHandleForWriting.close()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// The next line that it prints; what there is of one if it has ended.
    func line() async throws -> String {
        let descriptor = output.fileHandleForReading.fileDescriptor
        return try await runBlocking {
            var line: [UInt8] = []
            var byte: UInt8 = 0
            while read(descriptor, &byte, 1) == 1, byte != UInt8(ascii: "\n") { line.append(byte) }
            return String(decoding: line, as: UTF8.self)
        }
    }

    /// Lets it go on.
    func send(_ line: String = "") throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(line)\n".utf8))
    }

    /// Kills it as a power cut would, and returns when it's gone.
    func kill9() async throws {
        kill(process.processIdentifier, SIGKILL)
        // It holds the only other end of its output, so the end of that is its own.
        while try await !line().isEmpty {}
    }
}
