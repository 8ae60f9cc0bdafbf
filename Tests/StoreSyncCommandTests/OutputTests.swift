import Foundation
import Testing

@testable import StoreSyncCommand

extension CommandTests {
    @Suite("Standard output that can't be written is an error", .serialized)
    struct OutputTests {
        /// Runs the command with a redirection of the shell.
        private func run(_ redirection: String, _ arguments: [String], in fixture: Fixture) async throws
            -> CommandResult
        {
            let script = "\"$0\" \"$@\" \(redirection)"
            return await
                (try ChildProcess(
                    URL(filePath: "/bin/sh"),
                    ["-c", script, ChildProcess.storesync.path] + arguments,
                    environment: fixture.environment
                )).finish()
        }

        /// A device that has pushed.
        private func device(_ fixture: Fixture) async throws -> Device {
            let device = try fixture.device("laptop")
            try await device.push(adding: "one")
            return device
        }

        #if os(Linux)
        @Test("A full disk under it ends the command with 73, and standard error says it", arguments: ["", "--json"])
        func full(option: String) async throws {
            let fixture = try Fixture()
            let device = try await device(fixture)
            let options = device.options + (option.isEmpty ? [] : [option])
            for command in [["status"], ["list", "documents"], ["verify"], device.pushArguments] {
                let result = try await run(">/dev/full", command + options, in: fixture)
                #expect(result.status == 73, "\(result)")
                #expect(result.errorOutput.contains("standard output: No space left"), "\(result)")
                #expect(result.errorOutput.contains("[cannotWrite]"), "\(result)")
            }
            let failed = try await run(">/dev/full", ["check", "/nowhere", "--json"], in: fixture)
            #expect(failed.status == 66, "\(failed)")
            #expect(failed.errorOutput.contains("[storeNotFound]"), "\(failed)")
        }
        #endif

        @Test("A closed one ends the command with 73, and no file gets what was to be printed")
        func closed() async throws {
            let fixture = try Fixture()
            let device = try await device(fixture)
            try device.write("two")
            let result = try await run(">&- <&-", device.pushArguments + device.options + ["--json"], in: fixture)
            #expect(result.status == 73, "\(result)")
            #expect(result.errorOutput.contains("[cannotWrite]"), "\(result)")
            let verification = try await device.run("verify")
            #expect(verification.status == 0, "\(verification)")
        }

        @Test("A reader that needs no more ends the command quietly, and the demo still cleans up")
        func pipe() async throws {
            let fixture = try Fixture()
            let script = "{ demo; echo status $? >&2; } | true"
                .replacingOccurrences(of: "demo", with: "\"$0\" demo")
            let child = try ChildProcess(
                URL(filePath: "/bin/sh"),
                ["-c", script, ChildProcess.storesync.path],
                environment: fixture.environment
            )
            let result = await child.finish()
            #expect(result.errorOutput == "status 141\n", "\(result)")
            #expect(try Listing(of: fixture.folder).paths == ["home", "share", "temporary"])
        }

        /// Makes a nonblocking pipe this process's standard output, and fills it.
        ///
        /// - Returns: Its other end, which isn't read, and how many bytes the pipe holds.
        private static func redirectOutputToFullPipe() -> (reader: Int32, byteCount: Int) {
            var descriptors: [Int32] = [-1, -1]
            precondition(Foundation.pipe(&descriptors) == 0 && dup2(descriptors[1], STDOUT_FILENO) == STDOUT_FILENO)
            close(descriptors[1])
            _ = fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK)
            var byteCount = 0
            while Foundation.write(STDOUT_FILENO, [0], 1) == 1 { byteCount += 1 }
            return (descriptors[0], byteCount)
        }

        @Test("An interrupted command doesn't wait for a reader that has stopped reading")
        func fullPipe() async {
            await #expect(processExitsWith: .success) {
                let (reader, _) = OutputTests.redirectOutputToFullPipe()
                _ = fcntl(STDOUT_FILENO, F_SETFL, 0)
                // The pipe has room for a part of the line.
                var part = [UInt8](repeating: 0, count: Int(PIPE_BUF))
                precondition(read(reader, &part, part.count) == part.count)
                // Without an end of the wait, this ends the process.
                alarm(60)
                Terminal.interrupt()
                do {
                    try StandardOutput.write([String(repeating: "x", count: 1 << 20)])
                } catch {
                    exit(error is CancellationError && StandardOutput.isCut ? EXIT_SUCCESS : EXIT_FAILURE)
                }
                exit(EXIT_FAILURE)
            }
        }

        @Test("A full pipe that another program has set not to block is written once its reader continues")
        func nonblockingPipe() async {
            await #expect(processExitsWith: .success) {
                let (reader, former) = OutputTests.redirectOutputToFullPipe()
                let line = String(repeating: "x", count: 1 << 22)
                let count = line.utf8.count + 1 + former
                let isRead = DispatchSemaphore(value: 0)
                Thread.detachNewThread {
                    var (buffer, rest) = ([UInt8](repeating: 0, count: 1 << 12), count)
                    while rest > 0 {
                        let part = read(reader, &buffer, buffer.count)
                        guard part > 0 else { exit(EXIT_FAILURE) }
                        rest -= part
                    }
                    isRead.signal()
                }
                try StandardOutput.write([line])
                // The end of the pipe tells a reader that lacks bytes.
                close(STDOUT_FILENO)
                isRead.wait()
            }
        }
    }
}
