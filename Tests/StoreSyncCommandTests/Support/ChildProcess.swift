import Foundation
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// What a child process printed, and how it ended.
struct CommandResult: Sendable, CustomStringConvertible {
    var status: Int32
    /// The signal that ended the process; `nil` if it exited by itself.
    var signal: Int32?
    var output: String
    var errorOutput: String

    /// The status as a shell reports it.
    var shellStatus: Int32 { signal.map { 128 + $0 } ?? status }

    var description: String { "status \(status), signal \(signal ?? 0)\n\(output)\n\(errorOutput)" }
}

/// A process that a test starts, feeds, signals and waits for.
///
/// Separate threads read its pipes from the start, so that neither process blocks, however much the child prints.
final class ChildProcess: Sendable {
    /// An action that runs once, when a text is printed after the previous reaction's text.
    struct Reaction: Sendable {
        var text: String
        var body: @Sendable (ChildProcess) -> Void
    }

    /// The text of one stream so far.
    private final class Collected: Sendable {
        private let state = Mutex((data: Data(), rest: Data()))

        var text: String { state.withLock { String(decoding: $0.data, as: UTF8.self) } }

        /// Adds a chunk, and returns the lines that it completes.
        @discardableResult
        func append(_ chunk: Data) -> [String] {
            state.withLock { state in
                state.data += chunk
                var lines = (state.rest + chunk).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
                state.rest = Data(lines.removeLast())
                return lines.map { String(decoding: $0, as: UTF8.self) }
            }
        }
    }

    /// The remaining reactions, and the offset at which the search for the next text starts.
    private final class Script: Sendable {
        private let state: Mutex<(reactions: [Reaction], offset: Int)>

        init(_ reactions: [Reaction]) { state = Mutex((reactions, 0)) }

        /// The next reaction, if its text was printed after that of the previous reaction.
        func next(after text: String) -> Reaction? {
            state.withLock { state in
                guard let reaction = state.reactions.first else { return nil }
                let rest = text.utf8.dropFirst(state.offset)
                guard let range = text.range(of: reaction.text, range: rest.startIndex..<rest.endIndex) else {
                    return nil
                }
                state.offset = text.utf8.distance(from: text.startIndex, to: range.upperBound)
                return state.reactions.removeFirst()
            }
        }
    }

    private let process = Process()
    private let ended = DispatchGroup()
    private let output = Collected()
    private let errorOutput = Collected()
    private let input: FileHandle
    private let lines: (stream: AsyncStream<String>, continuation: AsyncStream<String>.Continuation)

    /// Starts a process.
    ///
    /// - Parameters:
    ///   - executable: The program.
    ///   - arguments: Its arguments.
    ///   - environment: Its whole environment.
    ///   - onTerminal: Whether standard input and standard error are a terminal.
    ///   - reactions: Actions that run one after the other, when their texts appear on standard error or the terminal.
    /// - Throws: An error if the process can't be started or the terminal can't be created.
    init(
        _ executable: URL,
        _ arguments: [String],
        environment: [String: String],
        onTerminal: Bool = false,
        reactions: [Reaction] = []
    ) throws {
        process.executableURL = executable
        process.arguments = arguments
        process.environment = environment
        lines = AsyncStream.makeStream(of: String.self)
        let standardOutput = Pipe()
        process.standardOutput = standardOutput
        let errors: FileHandle
        var terminal: FileHandle?
        if onTerminal {
            let (ours, theirs) = try Self.openTerminal()
            process.standardInput = theirs
            process.standardError = theirs
            (input, errors, terminal) = (ours, ours, theirs)
        } else {
            let (standardInput, standardError) = (Pipe(), Pipe())
            process.standardInput = standardInput
            process.standardError = standardError
            (input, errors) = (standardInput.fileHandleForWriting, standardError.fileHandleForReading)
        }
        ended.enter()
        process.terminationHandler = { [ended] _ in ended.leave() }
        do {
            try process.run()
        } catch {
            ended.leave()
            throw error
        }
        try terminal?.close()
        collect(standardOutput.fileHandleForReading) { [output, lines] chunk in
            for line in output.append(chunk) { lines.continuation.yield(line) }
        } atEnd: { [lines] in
            lines.continuation.finish()
        }
        let script = Script(reactions)
        collect(errors) { [errorOutput, weak self] chunk in
            errorOutput.append(chunk)
            while let self, let reaction = script.next(after: errorOutput.text) { reaction.body(self) }
        }
    }

    deinit {
        signal(SIGKILL)
        try? input.close()
    }

    /// Reads a pipe to its end and closes it: on Linux, a `Process` that has ended may keep its pipes for good.
    private func collect(
        _ handle: FileHandle,
        _ body: @escaping @Sendable (Data) -> Void,
        atEnd: @escaping @Sendable () -> Void = {}
    ) {
        ended.enter()
        // A thread of its own: those of the global queues are few, and the tests run on them.
        Thread.detachNewThread { [ended] in
            defer { ended.leave() }
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = read(handle.fileDescriptor, &buffer, buffer.count)
                if count < 0, errno == EINTR { continue }
                // Reading from a terminal fails once the last process has closed it.
                guard count > 0 else { break }
                body(Data(buffer[..<count]))
            }
            try? handle.close()
            atEnd()
        }
    }

    private static func openTerminal() throws -> (ours: FileHandle, theirs: FileHandle) {
        #if canImport(Darwin)
        let ours = posix_openpt(O_RDWR | O_NOCTTY)
        guard ours >= 0, grantpt(ours) == 0, unlockpt(ours) == 0, let path = ptsname(ours) else {
            throw POSIXError(.ENXIO)
        }
        let name = String(cString: path)
        #else
        // Does the work of posix_openpt, unlockpt and ptsname, which Swift's Glibc module lacks: TIOCSPTLCK and
        // TIOCGPTN.
        let ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (lock, number): (Int32, UInt32) = (0, 0)
        guard ours >= 0, ioctl(ours, 0x4004_5431, &lock) == 0, ioctl(ours, 0x8004_5430, &number) == 0 else {
            throw POSIXError(.ENXIO)
        }
        let name = "/dev/pts/\(number)"
        #endif
        let theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)
        guard theirs >= 0 else { throw POSIXError(.ENXIO) }
        return (
            FileHandle(fileDescriptor: ours, closeOnDealloc: true),
            FileHandle(fileDescriptor: theirs, closeOnDealloc: true)
        )
    }

    /// The standard output so far.
    var outputSoFar: String { output.text }

    /// Waits for a line on the standard output, after the last line that was waited for.
    ///
    /// - Returns: The line; `nil` if the process ends without one.
    func line(where condition: (String) throws -> Bool = { _ in true }) async rethrows -> String? {
        for await line in lines.stream where try condition(line) { return line }
        return nil
    }

    /// Types something, or writes it to its standard input.
    func send(_ text: String) {
        try? input.write(contentsOf: Data(text.utf8))
    }

    /// Signals the process while it runs, and never another process.
    func signal(_ number: Int32) {
        if process.isRunning { kill(process.processIdentifier, number) }
    }

    /// Waits until the process has ended and all its output was read.
    func finish() async -> CommandResult {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                ended.notify(queue: .global()) { continuation.resume() }
            }
        } onCancel: {
            signal(SIGKILL)
        }
        return CommandResult(
            status: process.terminationReason == .exit ? process.terminationStatus : -1,
            signal: process.terminationReason == .exit ? nil : process.terminationStatus,
            output: outputSoFar,
            errorOutput: errorOutput.text
        )
    }

    /// The command, which is built beside the tests.
    static let storesync: URL = {
        #if os(macOS)
        let tests = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
        #else
        let tests: URL? = nil
        #endif
        let bundle = tests ?? URL(fileURLWithPath: CommandLine.arguments[0])
        return bundle.deletingLastPathComponent().appending(path: "storesync")
    }()
}

/// The part of this process's environment that system tools and the command get.
let toolEnvironment = ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin:/usr/sbin:/sbin"]
