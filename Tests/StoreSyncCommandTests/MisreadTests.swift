import Foundation
import Testing

extension CommandTests {
    @Suite("What the command would misread is refused, and nothing is written")
    struct MisreadTests {
        private static let credentials = [
            "STORESYNC_WEBDAV_PASSWORD": "geheim", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "geheim",
        ]

        /// Expects that a shell command, in which `$storesync` is the command, is refused.
        private func expectUsage(
            _ script: String,
            _ fixture: Fixture,
            saying words: String,
            _ environment: [String: String] = [:]
        ) async throws {
            let before = try Listing(of: fixture.folder)
            let values = ["storesync": ChildProcess.storesync.path, "share": fixture.share.path].merging(environment) {
                $1
            }
            let result = try await ChildProcess(
                URL(filePath: "/bin/sh"),
                ["-c", script],
                environment: fixture.environment.merging(values) { $1 }
            ).finish()
            #expect(result.status == 64, "\(result)")
            #expect(try result.errorMessage().contains(words), "\(result)")
            #expect(try Listing(of: fixture.folder) == before)
        }

        @Test(
            "A URL with a query or a wrong port, an empty state directory and a missing certificate are wrong usage",
            arguments: [
                ("--remote \"file://$share#1\"", "Write # in a path as %23"),
                ("--remote \"file://$share?x\"", "Write # in a path as %23"),
                ("--remote webdav://user@127.0.0.1:99999/x", "its port isn't a number from 1 to 65535"),
                ("--remote 's3://bucket/x?endpoint=http://127.0.0.1:99999'", "its endpoint's port isn't"),
                ("--remote \"file://$share\" --state ''", "--state is empty"),
                ("--remote webdavs://user@127.0.0.1/x --certificate /nowhere.pem", "holds no certificate"),
                ("--remote webdavs://user@127.0.0.1/x --certificate /dev/stdin", "/dev/stdin is a pipe"),
            ]
        )
        func options(options: String, words: String) async throws {
            let fixture = try Fixture()
            let command = "$storesync register --no-encrypt --app org.example.notes \(options) --json"
            try await expectUsage(command, fixture, saying: words, Self.credentials)
        }

        @Test("An argument or a password that isn't UTF-8 is wrong usage")
        func encoding() async throws {
            let fixture = try Fixture()
            let options = "--app org.example.notes --remote \"file://$share\" --json"
            try await expectUsage("$storesync check \"$(printf 'caf\\351')\" --json", fixture, saying: "isn't UTF-8")
            let password = "STORESYNC_PASSWORD=$(printf 'pw\\377') $storesync register --encrypt \(options)"
            try await expectUsage(password, fixture, saying: "isn't UTF-8")
            let remote = "--app org.example.notes --remote webdavs://user@127.0.0.1/x --json"
            let webDAV = "STORESYNC_WEBDAV_PASSWORD=$(printf 'pw\\377') $storesync status \(remote)"
            try await expectUsage(webDAV, fixture, saying: "isn't UTF-8")
        }

        @Test(
            "A state directory whose name isn't UTF-8 is refused, and any other name in a variable",
            arguments: ["STORESYNC_STATE", "XDG_STATE_HOME", "HOME", "TMPDIR", "STORESYNC_REMOTE"]
        )
        func variables(variable: String) async throws {
            let remote = variable == "STORESYNC_REMOTE" ? "" : "--remote \"file://$share\""
            let register = "$storesync register --no-encrypt --app org.example.notes \(remote) --json"
            let script = "\(variable)=\"$share/$(printf 's\\351')\" \(register)"
            try await expectUsage(script, Fixture(), saying: "\(variable) isn't UTF-8")
        }

        #if os(Linux)
        @Test("A working directory whose name isn't UTF-8 is refused")
        func workingDirectory() async throws {
            let script = """
                directory="$share/$(printf 'd\\351')"
                mkdir "$directory" && cd "$directory" && $storesync register --no-encrypt --state state \
                    --app org.example.notes --remote "file://$share" --json
                status=$?
                rmdir "$directory" && exit $status
                """
            try await expectUsage(script, Fixture(), saying: "isn't UTF-8. Rename it")
        }
        #endif

        @Test("A path that begins with ~ names a file in the working directory")
        func tilde() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("work")
            try device.write("one")
            let script = """
                cd "$work" && mkdir '~' && mv store.sqlite '~/a.sqlite' && printf '{}' >'~/rules' || exit 1
                $storesync check '~/a.sqlite' --rules '~/rules' || exit 2
                export STORESYNC_REMOTE="file://$share" STORESYNC_APP=org.example.notes
                $storesync sync '~/a.sqlite' --document notes --no-encrypt --state '~/state' || exit 3
                STORESYNC_STATE='~/other' $storesync pull '~/b.sqlite' --document notes --no-encrypt || exit 4
                """
            let values = [
                "storesync": ChildProcess.storesync.path, "share": fixture.share.path, "work": device.home.path,
            ]
            let result = try await ChildProcess(
                URL(filePath: "/bin/sh"),
                ["-c", script],
                environment: fixture.environment.merging(values) { $1 }
            ).finish()
            #expect(result.status == 0, "\(result)")
            let paths = try Listing(of: device.home).paths
            for name in ["a.sqlite", "b.sqlite", "state", "other"] { #expect(paths.contains("~/\(name)"), "\(paths)") }
        }

        @Test(
            "With --json, the error names what is wrong, not --json",
            arguments: [("statu", "statu"), ("list", "list")]
        )
        func blame(command: String, word: String) async throws {
            let message = try await Fixture().run([command, "--json"]).errorMessage()
            #expect(message.contains(word) && !message.contains("--json"), "\(message)")
        }

        @Test("A command without its subcommand names the subcommands, and points to no other help")
        func subcommands() async throws {
            for (command, words) in [("list", "list documents"), ("remove", "remove client"), ("password", "change")] {
                let result = try await Fixture().run([command])
                #expect(result.status == 64 && result.errorOutput.contains("storesync \(command)"), "\(result)")
                #expect(result.errorOutput.contains(words) && !result.errorOutput.contains("--help"), "\(result)")
            }
        }

        @Test("--json before the command is wrong usage, as an object")
        func position() async throws {
            try expectFailure(try await Fixture().run(["--json", "status"]), 64, "usage")
        }

        @Test("A remote's scheme in capitals is accepted")
        func capitals() async throws {
            let fixture = try Fixture()
            let options = ["--app", "org.example.notes", "--remote", "FILE://LOCALHOST\(fixture.share.path)"]
            #expect(try await fixture.run(["register", "--no-encrypt"] + options).status == 0)
        }
    }
}
