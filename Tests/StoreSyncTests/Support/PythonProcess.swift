import Foundation
import ThreadSupport

/// A Python script in another process, driven by lines over its standard input and output.
///
/// Waiting for it blocks a thread, so every wait runs on an executor for blocking calls.
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
        // On Linux, a `Process` that has ended may keep its pipes for good.
        try? input.fileHandleForWriting.close()
        try? output.fileHandleForReading.close()
    }

    /// Returns the next line that it prints, or the incomplete last line if it has ended.
    func line() async throws -> String {
        let descriptor = output.fileHandleForReading.fileDescriptor
        return try await runBlocking {
            var line: [UInt8] = []
            var byte: UInt8 = 0
            while read(descriptor, &byte, 1) == 1, byte != UInt8(ascii: "\n") { line.append(byte) }
            return String(decoding: line, as: UTF8.self)
        }
    }

    /// Sends it a line, so that it continues.
    func send(_ line: String = "") throws {
        try input.fileHandleForWriting.write(contentsOf: Data("\(line)\n".utf8))
    }

    /// Kills it without warning, as a power cut would, and returns when it has ended.
    func kill9() async throws {
        kill(process.processIdentifier, SIGKILL)
        // It holds the only write end of its output, so the output ends when the process ends.
        while try await !line().isEmpty {}
    }
}
