import Foundation
import Operations
import TestSupport
import Testing

@testable import StoreSyncCommand

extension CommandTests {
    @Suite("SIGHUP, SIGINT and SIGTERM end a command with 129, 130 and 143, and leave no damage", .serialized)
    struct InterruptionTests {
        static let signals = Interruption.signals
        private static let megabytes = 32

        /// Expects that a command was interrupted before the commit, or succeeded.
        private func expectStatus(_ result: CommandResult, _ signal: Int32) throws {
            #expect([0, 128 + signal].contains(result.shellStatus), "\(result)")
            // Before the command has installed its handlers, a signal ends the process by default.
            guard result.signal == nil else { return }
            let object = try result.json()
            #expect((object["error"] == nil) == (result.status == 0))
            if result.status != 0 { #expect(try result.errorCode() == "interrupted") }
        }

        /// Expects that `verify --repair` cleans up everything, and that `verify` reports nothing afterwards.
        private func expectSound(_ device: Device) async throws {
            let repair = try await device.run("verify", "--repair")
            #expect(repair.status == 0 || (try? repair.errorCode()) == "applicationMissing", "\(repair)")
            guard repair.status == 0 else { return }
            let verify = try await device.run("verify")
            #expect(try verify.json()["problems"] == .array([]), "\(verify)")
            #expect(try verify.json()["warnings"] == .array([]), "\(verify)")
        }

        @Test("SIGHUP interrupts a command unless its parent ignores it, and stays ignored then")
        func hangUp() async {
            await #expect(processExitsWith: .success) {
                signal(SIGHUP, SIG_DFL)
                let usual = Interruption.signals
                signal(SIGHUP, SIG_IGN)
                let ignored = Interruption.signals
                let former = signal(SIGHUP, SIG_DFL)
                let staysIgnored = unsafeBitCast(former, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
                let isRight = usual == [SIGINT, SIGTERM, SIGHUP] && ignored == [SIGINT, SIGTERM] && staysIgnored
                exit(isRight ? EXIT_SUCCESS : EXIT_FAILURE)
            }
        }

        #if os(Linux)
        @Test("A signal is never ignored, not even while the command is starting")
        func starting() async {
            await #expect(processExitsWith: .success) {
                _ = Interruption(cancelling: OperationSupervisor())
                let former = InterruptionTests.signals.map { Foundation.signal($0, SIG_DFL) }
                let isIgnored = former.contains {
                    unsafeBitCast($0, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
                }
                exit(isIgnored ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }
        #endif

        @Test("After an interruption no question takes an answer that was typed ahead, and errors are still written")
        func typedAhead() async {
            await #expect(processExitsWith: .success) {
                var ends: [Int32] = [-1, -1]
                guard pipe(&ends) == 0, write(ends[1], "y\n", 2) == 2 else { exit(EXIT_FAILURE) }
                Terminal.interrupt()
                #expect(throws: CancellationError.self) { try Terminal.wait(for: ends[0], POLLIN) }
                try Terminal.wait(for: ends[1], POLLOUT)
            }
        }

        @Test("An interruption ends the wait for a file that an option names, if it's a pipe")
        func reading() async {
            await #expect(processExitsWith: .success) {
                var ends: [Int32] = [-1, -1]
                guard pipe(&ends) == 0, write(ends[1], "p", 1) == 1 else { exit(EXIT_FAILURE) }
                let path = "/dev/fd/\(ends[0])"
                let first = try Data(ofFile: path, upTo: 1)
                #expect(first == Data("p".utf8))
                Terminal.interrupt()
                #expect(throws: CancellationError.self) { try Data(ofFile: path, upTo: 1) }
            }
        }

        @Test("A pipe to which no program writes doesn't keep the command from being interrupted")
        func withoutWriter() async {
            await #expect(processExitsWith: .success) {
                let pipe = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
                guard mkfifo(pipe, 0o600) == 0 else { exit(EXIT_FAILURE) }
                defer { unlink(pipe) }
                // Ends this process if it waits for a writer.
                alarm(300)
                Terminal.interrupt()
                #expect(throws: CancellationError.self) { try Data(ofFile: pipe, upTo: 1) }
            }
        }

        @Test("A signal ends a command that waits for a password from a pipe", arguments: signals)
        func password(signal: Int32) async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let pipe = fixture.temporary.appending(path: "password").path
            try #require(mkfifo(pipe, 0o600) == 0)
            let arguments = ["register", "--encrypt", "--password-file", pipe] + device.options + ["--json"]
            let child = try fixture.start(arguments)
            // Opening it returns when the command has opened it, too.
            let writer = open(pipe, O_WRONLY)
            defer { close(writer) }
            child.signal(signal)
            let result = await child.finish()
            #expect(result.shellStatus == 128 + signal, "\(result)")
            #expect(try Listing(of: fixture.share).isEmpty)
        }

        @Test("A push that is interrupted at any moment publishes all or nothing", arguments: signals)
        func push(signal: Int32) async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            for attempt in 1...TestDepth.choose(quick: 4, deep: 40) {
                try laptop.write("note \(attempt)", bytes: 400_000 * attempt)
                let before = try fixture.manifests()
                let child = try fixture.start(laptop.pushArguments + laptop.options + ["--json"])
                // Each attempt interrupts later, after more work, since connecting to the file system takes some time.
                for _ in 1..<attempt { _ = try await fixture.run(["--version"]) }
                child.signal(signal)
                let result = await child.finish()
                try expectStatus(result, signal)
                if result.status != 0 { #expect(try fixture.manifests() == before) }
                try await expectSound(laptop)
            }
            #expect(try await laptop.push().status == 0)
            #expect(try await desktop.pull().status == 0)
            #expect(try desktop.notes() == laptop.notes())
            #expect(try Listing(of: laptop.home).withoutState.paths == ["store.sqlite"])
        }

        @Test("A pull that is interrupted at any moment replaces the store or keeps it", arguments: signals)
        func pull(signal: Int32) async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("old")
            #expect(try await laptop.push().status == 0)
            #expect(try await desktop.pull().status == 0)
            for attempt in 1...TestDepth.choose(quick: 4, deep: 40) {
                try laptop.write("note \(attempt)", bytes: 400_000 * attempt)
                #expect(try await laptop.push().status == 0)
                let before = try desktop.notes()
                let child = try fixture.start(desktop.pullArguments + desktop.options + ["--json"])
                for _ in 1..<attempt { _ = try await fixture.run(["--version"]) }
                child.signal(signal)
                let result = await child.finish()
                try expectStatus(result, signal)
                #expect(try desktop.notes() == (result.status == 0 ? laptop.notes() : before))
                try await expectSound(desktop)
            }
            #expect(try await desktop.pull().status == 0)
            #expect(try desktop.notes() == laptop.notes())
            #expect(try Listing(of: desktop.home).withoutState.paths == ["store.sqlite"])
        }

        @Test(
            "A push that is interrupted during a transfer cleans up its temporary files and can be repeated",
            arguments: signals
        )
        func uploading(signal: Int32) async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try laptop.write("one")
            #expect(try await laptop.push().status == 0)
            try laptop.write("big", bytes: Self.megabytes << 20)
            let before = try fixture.manifests()
            let child = try fixture.start(
                laptop.pushArguments + laptop.options + ["--json"],
                onTerminal: true,
                reactions: [ChildProcess.Reaction(text: "uploading") { $0.signal(signal) }]
            )
            let result = await child.finish()
            try expectStatus(result, signal)
            if result.status != 0 { #expect(try fixture.manifests() == before) }
            #expect(try Listing(of: fixture.temporary).isEmpty)
            try await expectSound(laptop)
            #expect(try await laptop.push().status == 0)
        }

        @Test("A pull that is interrupted during a transfer leaves only the store", arguments: signals)
        func downloading(signal: Int32) async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try desktop.write("before")
            try laptop.write("big", bytes: Self.megabytes << 20)
            #expect(try await laptop.push().status == 0)
            let before = try Listing(of: desktop.home).withoutState
            let arguments = desktop.pullArguments + desktop.options + ["--overwrite", "--json"]
            let child = try fixture.start(
                arguments,
                onTerminal: true,
                reactions: [ChildProcess.Reaction(text: "downloading") { $0.signal(signal) }]
            )
            let result = await child.finish()
            try expectStatus(result, signal)
            if result.status != 0 { #expect(try Listing(of: desktop.home).withoutState == before) }
            #expect(try Listing(of: desktop.home).withoutState.paths == ["store.sqlite"])
            #expect(try Listing(of: fixture.temporary).isEmpty)
            #expect(try await desktop.pull("--overwrite").status == 0)
        }

        @Test("A signal ends an unanswered question too, and nothing is created", arguments: signals)
        func question(signal: Int32) async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let child = try fixture.start(
                ["register"] + device.options + ["--json"],
                onTerminal: true,
                reactions: [ChildProcess.Reaction(text: "[y/n]") { $0.signal(signal) }]
            )
            let result = await child.finish()
            #expect(result.status == 128 + signal, "\(result)")
            #expect(try result.errorCode() == "interrupted")
            #expect(try Listing(of: fixture.share).isEmpty)
        }
    }
}
