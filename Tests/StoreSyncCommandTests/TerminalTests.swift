import Foundation
import Testing

extension CommandTests {
    @Suite("On a terminal, the command asks questions and shows its progress", .serialized)
    struct TerminalTests {
        private func answer(_ fixture: Fixture, _ arguments: [String], _ answers: String...) async throws
            -> CommandResult
        {
            let child = try fixture.start(arguments, onTerminal: true)
            // Typed ahead: the terminal buffers the answers until the command reads them.
            child.send(answers.map { "\($0)\n" }.joined())
            return await child.finish()
        }

        /// Types each answer only after its prompt appears, since input typed before a password prompt is discarded.
        private func converse(
            _ fixture: Fixture,
            _ arguments: [String],
            _ answers: (prompt: String, text: String)...
        ) async throws -> CommandResult {
            let reactions = answers.map { answer in
                ChildProcess.Reaction(text: answer.prompt) { $0.send("\(answer.text)\n") }
            }
            return await (try fixture.start(arguments, onTerminal: true, reactions: reactions)).finish()
        }

        @Test("For a new application, the command asks whether to encrypt it until the answer is yes or no")
        func newApplication() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let result = try await answer(fixture, ["register"] + device.options + ["--json"], "perhaps", "", "N")
            #expect(result.status == 0, "\(result)")
            #expect(try result.json()["encrypted"]?.boolean == false)
            #expect(result.errorOutput.components(separatedBy: "[y/n]").count == 4)
        }

        @Test("A question begins a line of its own, where the progress was")
        func questionLine() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let result = try await converse(fixture, ["register"] + device.options, ("[y/n]", "n"))
            #expect(result.status == 0, "\(result)")
            let before = try #require(result.errorOutput.components(separatedBy: "org.example.notes is new.").first)
            #expect(before.isEmpty || before.hasSuffix("\r\u{1B}[K"), "\(result)")
        }

        @Test("After yes, a password is asked for twice without echo, until both entries are the same")
        func encrypted() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let arguments = ["register"] + device.options + ["--json"]
            let result = try await converse(
                fixture,
                arguments,
                ("[y/n]", "y"),
                ("Password for", "one"),
                ("The same again", "two"),
                ("Password for", "three"),
                ("The same again", "three")
            )
            for password in ["one", "two", "three"] { #expect(!result.errorOutput.contains("\(password)\r")) }
            #expect(result.status == 0, "\(result)")
            #expect(try result.json()["encrypted"]?.boolean == true)
            let desktop = try fixture.device("desktop")
            let joined = try await converse(
                fixture,
                ["register"] + desktop.options + ["--json"],
                ("Password of", "one"),
                ("Wrong password", "three")
            )
            #expect(joined.status == 0, "\(joined)")
            #expect(joined.errorOutput.contains("Wrong password"))
        }

        @Test("A password change asks a device without keys for the present password first")
        func passwordChange() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let register = ["register", "--password-memory", "64"] + laptop.options
            #expect(try await fixture.run(register, environment: ["STORESYNC_PASSWORD": "old"]).status == 0)
            let result = try await converse(
                fixture,
                ["password", "change"] + desktop.options + ["--json"],
                ("Password of", "old"),
                ("New password", "new"),
                ("The same again", "new")
            )
            #expect(result.status == 0, "\(result)")
            #expect(try await desktop.run("register", environment: ["STORESYNC_PASSWORD": "new"]).status == 0)
        }

        @Test("Input typed before a password prompt is visible, so it isn't used as the password")
        func typedAhead() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let result = try await converse(
                fixture,
                ["register"] + laptop.options + ["--json"],
                ("[y/n]", "y\nvisible\nvisible"),
                ("Password for", "hidden"),
                ("The same again", "hidden\nvisible")
            )
            #expect(result.status == 0, "\(result)")
            #expect(!result.errorOutput.contains("two different"))
            let refused = try await desktop.run("register", environment: ["STORESYNC_PASSWORD": "visible"])
            #expect(try refused.errorCode() == "wrongPassword")
            #expect(try await desktop.run("register", environment: ["STORESYNC_PASSWORD": "hidden"]).status == 0)
        }

        #if os(Linux)
        /// Runs a script in a shell that controls jobs, on a terminal of its own: `"$@"` is the command with the arguments.
        private func shell(
            _ script: String,
            _ arguments: [String],
            _ fixture: Fixture,
            _ reactions: [ChildProcess.Reaction]
        ) async throws -> CommandResult {
            let shell = ["--ctty", "--wait", "bash", "-c", "set -m; \(script)", "bash", ChildProcess.storesync.path]
            let child = try ChildProcess(
                URL(filePath: "/usr/bin/setsid"),
                shell + arguments,
                environment: fixture.environment,
                onTerminal: true,
                reactions: reactions
            )
            return await child.finish()
        }

        @Test("Ctrl-Z and Ctrl-\\ don't stop a command that asks for a password: the shell would be left without echo")
        func suspension() async throws {
            let fixture = try Fixture()
            let reactions = [
                ChildProcess.Reaction(text: "[y/n]") { $0.send("y\n") },
                ChildProcess.Reaction(text: "Password for") { $0.send("vis\u{1A}\u{1C}hidden\n") },
                ChildProcess.Reaction(text: "The same again") { $0.send("hidden\n") },
            ]
            let register = ["register"] + (try fixture.device("laptop")).options
            let result = try await shell(#""$@"; exit $?"#, register, fixture, reactions)
            #expect(result.status == 0, "\(result)")
        }

        @Test("After Ctrl-C at a prompt for a password, the terminal shows again what is typed")
        func echo() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let push = ["push", laptop.store.path, "--document", "notes", "--password-memory", "64"] + laptop.options
            #expect(try await fixture.run(push, environment: ["STORESYNC_PASSWORD": "secret"]).status == 0)
            let attempts = 5
            let reaction = ChildProcess.Reaction(text: "Password of") { $0.send("\u{3}") }
            let result = try await shell(
                #"for i in {1..\#(attempts)}; do "$@"; echo $?; stty -a; done"#,
                ["pull", desktop.store.path, "--document", "notes"] + desktop.options,
                fixture,
                Array(repeating: reaction, count: attempts)
            )
            let words = result.output.split(whereSeparator: \.isWhitespace)
            #expect(words.count { $0 == "130" } == attempts && words.count { $0 == "echo" } == attempts, "\(result)")
        }
        #endif

        @Test("The command asks before it joins an unencrypted application; yes joins, no doesn't")
        func joining() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            let before = try Listing(of: fixture.share)
            let pull = ["pull", desktop.store.path, "--document", "notes", "--json"] + desktop.options
            let refused = try await answer(fixture, pull, "no")
            #expect(refused.status == 64, "\(refused)")
            #expect(try refused.errorCode() == "encryptionUndecided")
            #expect(try Listing(of: fixture.share) == before)
            let joined = try await answer(fixture, pull, "yes")
            #expect(joined.status == 0, "\(joined)")
            #expect(try desktop.notes() == ["one"])
            // The question is asked only once.
            #expect(try await fixture.run(pull).status == 0)
        }

        @Test("A terminal that Ctrl-S has stopped doesn't stop a command that shows its progress there")
        func stoppedTerminal() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let child = try fixture.start(device.pushArguments + device.options, onTerminal: true)
            child.send("\u{13}")
            let result = await child.finish()
            #expect(result.status == 0 && result.output.contains("Pushed notes, generation 1"), "\(result)")
        }

        @Test("A progress bar is drawn only on a terminal that can clear it, and not with --quiet")
        func progress() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one", bytes: 1_000_000)
            let arguments = device.pushArguments + device.options
            let shown = await (try fixture.start(arguments, onTerminal: true)).finish()
            #expect(shown.status == 0, "\(shown)")
            #expect(shown.errorOutput.contains("█") || shown.errorOutput.contains("░"), "\(shown)")
            #expect(shown.output.contains("Pushed notes, generation 1"))

            try device.write("two", bytes: 1_000_000)
            let quiet = await (try fixture.start(arguments + ["--quiet"], onTerminal: true)).finish()
            #expect(quiet.status == 0, "\(quiet)")
            #expect(quiet.errorOutput.isEmpty)
            #expect(quiet.output.isEmpty)

            try device.write("three", bytes: 1_000_000)
            let piped = try await fixture.run(arguments)
            #expect(piped.status == 0)
            #expect(piped.errorOutput.isEmpty)

            try device.write("four", bytes: 1_000_000)
            let dumb = try fixture.start(arguments, environment: ["TERM": "dumb"], onTerminal: true)
            let result = await dumb.finish()
            #expect(result.status == 0 && result.errorOutput.isEmpty, "\(result)")
        }
    }

    @Suite("Options come from the command line, the environment or a default", .serialized)
    struct OptionsTests {
        @Test("Remote, application and state may be environment variables, which options override")
        func environment() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let environment = [
                "STORESYNC_REMOTE": "file://\(fixture.share.path)", "STORESYNC_APP": "org.example.notes",
                "STORESYNC_STATE": device.state.path,
            ]
            let arguments = device.pushArguments + ["--json"]
            let push = try await fixture.run(arguments, environment: environment)
            #expect(push.status == 0, "\(push)")
            #expect(try push.json()["application"]?.string == "org.example.notes")
            #expect(FileManager.default.fileExists(atPath: device.state.path))
            let other = try await fixture.run(arguments + ["--app", "org.example.other"], environment: environment)
            #expect(try other.json()["application"]?.string == "org.example.other")
            let nowhere = try await fixture.run(
                arguments + ["--remote", "file:///nowhere/at/all"],
                environment: environment
            )
            #expect(nowhere.status == 69)
        }

        @Test("The state directory is below XDG_STATE_HOME, else the home directory, and only its owner can use it")
        func defaultState() async throws {
            let fixture = try Fixture()
            let arguments = [
                "register", "--no-encrypt", "--json", "--app", "org.example.notes", "--remote",
                "file://\(fixture.share.path)",
            ]
            #expect(try await fixture.run(arguments).status == 0)
            #expect(
                try await fixture.run(arguments, environment: ["XDG_STATE_HOME": ""]).json()["created"]?.boolean
                    == false
            )
            for path in ["home/state-home/storesync", "home/.local/state/storesync"] {
                let directory = fixture.folder.appending(path: path).path
                let mode = try FileManager.default.attributesOfItem(atPath: directory)[.posixPermissions] as? Int
                #expect(mode == 0o700)
            }
        }

        @Test("An empty TMPDIR is as good as none")
        func emptyTemporaryDirectory() async throws {
            let result = try await Fixture().run(["demo", "--keep", "--json"], environment: ["TMPDIR": ""])
            let kept = URL(filePath: try #require(try result.json()["kept"]?.string))
            #expect(kept.deletingLastPathComponent().path != "/")
            try FileManager.default.removeItem(at: kept)
        }

        @Test("Rules and passwords may come from a pipe")
        func pipes() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            func run(_ text: String, _ arguments: [String]) async throws -> CommandResult {
                try await ChildProcess(
                    URL(filePath: "/bin/sh"),
                    ["-c", "printf '%s' \"$text\" | \"$@\"", "sh", ChildProcess.storesync.path] + arguments + [
                        "--json"
                    ],
                    environment: fixture.environment.merging(["text": text]) { $1 }
                ).finish()
            }
            let rules = #"{"excludedTables": ["note"]}"#
            let check = try await run(rules, ["check", device.store.path, "--rules", "/dev/stdin"])
            #expect(try check.json()["tables"]?[0]?["synchronizes"] == .boolean(false), "\(check)")
            let password = ["--password-file", "/dev/stdin", "--password-memory", "64"]
            #expect(try await run("secret", ["register"] + password + device.options).status == 0)
            let share = ["--remote", "webdav://user@127.0.0.1:1/x", "--app", "org.example.notes"]
            let status = try await run("secret", ["status", "--remote-password-file", "/dev/stdin"] + share)
            try expectFailure(status, 69, "remoteUnavailable")
        }

        @Test("A relative XDG_STATE_HOME is ignored: each working directory would be another device")
        func relativeStateHome() async throws {
            let fixture = try Fixture()
            let arguments = [
                "register", "--no-encrypt", "--json", "--app", "org.example.notes", "--remote",
                "file://\(fixture.share.path)",
            ]
            let result = try await fixture.run(arguments, environment: ["XDG_STATE_HOME": "relative"])
            #expect(result.status == 0, "\(result)")
            let state = fixture.folder.appending(path: "home/.local/state/storesync").path
            #expect(FileManager.default.fileExists(atPath: state))
            #expect(!FileManager.default.fileExists(atPath: "relative"))
        }

        @Test(
            "Help and version exit with 0",
            arguments: ["--help", "--version", "push --help", "verify -h", "help pull"]
        )
        func help(arguments: String) async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(arguments.split(separator: " ").map(String.init))
            #expect(result.status == 0, "\(result)")
            #expect(!result.output.isEmpty)
            #expect(try Listing(of: fixture.folder).paths == ["home", "share", "temporary"])
        }
    }

    @Suite("A command that is incomplete", .serialized)
    struct IncompleteTests {
        @Test(
            "An incomplete command is wrong usage, and the error names what is missing",
            arguments: [
                ["list"], ["remove"], ["password"], ["push", "", "--document", "notes"], ["check", ""],
                ["conflicts", ""],
                ["pull", "", "--document", "notes"], ["sync", "", "--document", "notes"],
            ]
        )
        func usage(arguments: [String]) async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(arguments)
            #expect(result.status == 64 && result.output.isEmpty, "\(result)")
            #expect(result.errorOutput.contains(arguments.count == 1 ? "storesync \(arguments[0]) " : "path is empty"))
            #expect(try Listing(of: fixture.folder).paths == ["home", "share", "temporary"])
        }
    }

    @Suite("The demo does the whole job", .serialized)
    struct DemoTests {
        @Test("It prints each step and leaves nothing behind, neither in the temporary directory nor at home")
        func demo() async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(["demo"])
            #expect(result.status == 0, "\(result)")
            #expect(result.output.contains("Both devices hold the same"))
            #expect(result.errorOutput.isEmpty)
            #expect(try Listing(of: fixture.folder).paths == ["home", "share", "temporary"])
        }

        @Test("If its folder can't be completed, it leaves nothing behind", .enabled(if: Mount.isPossible))
        func fullDisk() async throws {
            let fixture = try Fixture()
            // Room for the root, and two more directories.
            let mount = try await Mount(at: fixture.temporary, options: "size=1m,nr_inodes=3")
            let result = try await fixture.run(["demo", "--json"])
            #expect(result.status != 0)
            #expect(try Listing(of: fixture.temporary).isEmpty, "\(result)")
            try await mount.unmount()
        }

        @Test("With --json the steps are on standard error, and one object is on standard output")
        func steps() async throws {
            let result = try await Fixture().run(["demo", "--json"])
            #expect(try result.json()["command"]?.string == "demo" && result.json()["equal"]?.boolean == true)
            for step in 1...7 { #expect(result.errorOutput.contains("\(step). "), "\(result)") }
        }

        @Test("With --keep it leaves everything, and says where")
        func keep() async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(["demo", "--keep", "--json"])
            #expect(result.status == 0, "\(result)")
            let kept = try #require(try result.json()["kept"]?.string)
            #expect(kept.hasPrefix(fixture.temporary.path))
            let paths = try Listing(of: URL(fileURLWithPath: kept, isDirectory: true)).paths
            #expect(paths.contains("laptop/notes.sqlite"))
            #expect(paths.contains("desktop/notes.sqlite"))
        }

        @Test("With --quiet it prints nothing")
        func quiet() async throws {
            let result = try await Fixture().run(["demo", "--quiet"])
            #expect(result.status == 0)
            #expect(result.output.isEmpty)
            #expect(result.errorOutput.isEmpty)
        }

        @Test("An interrupted demo leaves nothing behind either")
        func interrupted() async throws {
            let fixture = try Fixture()
            for delay in 0...4 {
                let child = try fixture.start(["demo", "--json"])
                for _ in 0..<delay { _ = try await fixture.run(["--version"]) }
                child.signal(SIGTERM)
                let result = await child.finish()
                #expect([0, 143].contains(result.shellStatus), "\(result)")
                #expect(try Listing(of: fixture.folder).paths == ["home", "share", "temporary"])
            }
        }
    }
}
