import Foundation
import GRDB
import Testing

extension CommandTests {
    @Suite("What the command prints can be acted on", .serialized)
    struct WordingTests {
        private static let password = ["STORESYNC_PASSWORD": "correct horse"]

        @Test("Control characters in another device's description don't reach the terminal, and forge no line")
        func controls() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let description = "evil\u{1B}[2J\nclient FORGED\u{9B}1m\u{202E}"
            let arguments = ["register", "--no-encrypt", "--description", description] + device.options
            #expect(try await fixture.run(arguments).status == 0)
            for command in [["list", "clients"], ["status"]] {
                let result = try await fixture.run(command + device.options)
                #expect(result.status == 0 && result.output.contains("evil\\u{1B}[2J\\nclient FORGED"), "\(result)")
                #expect(!result.output.unicodeScalars.contains { [0x1B, 0x9B, 0x202E].contains($0.value) })
                #expect(!result.output.contains("\nclient FORGED"))
                let json = try await fixture.run(command + device.options + ["--json"])
                #expect(!json.output.unicodeScalars.contains { [0x1B, 0x9B, 0x202E].contains($0.value) })
                #expect(try json.json()["clients"]?[0]?["description"]?.string == description)
            }
        }

        @Test("Control characters in an error's details don't reach the terminal, and forge no line")
        func controlsInDetails() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            var options = device.options
            // The value of the first option, which is the remote.
            options[1] += "/missing%1Bc%0Aforged"
            let result = try await fixture.run(["status", "--verbose"] + options)
            #expect(result.status == 69, "\(result)")
            let lines = result.errorOutput.split(separator: "\n")
            let (name, end) = ("missing\\u{1B}c\\nforged", "operation ended")
            #expect(lines.contains { $0.contains(name) && $0.hasSuffix(end) }, "\(result)")
            #expect(!lines.contains { $0.contains("\u{1B}") || $0.hasPrefix("forged") }, "\(result)")
        }

        @Test("One is singular")
        func singular() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try await device.push(adding: "one")
            try Data("damaged".utf8).write(to: fixture.uploaded("WholeStore.ticdsync"))
            let verification = try await fixture.run(["verify"] + device.options)
            #expect(verification.status == 65)
            #expect(verification.output.hasSuffix("checked, 1 problem.\n"), "\(verification)")
            let removal = try await fixture.run(["remove", "application", "--yes"] + device.options)
            #expect(removal.output == "Removed org.example.notes with 1 document.\n", "\(removal)")
        }

        @Test("A sealed store that was changed is repaired by push --whole, as pull and verify say")
        func tampered() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one", bytes: 100_000)
            func run(_ device: Device, _ arguments: String...) async throws -> CommandResult {
                try await fixture.run(arguments + device.options + ["--json"], environment: Self.password)
            }
            #expect(try await run(laptop, "push", laptop.store.path, "--document", "notes").status == 0)
            try fixture.flipByte(at: 2000, of: fixture.uploaded("WholeStore.ticdsync"))
            let pull = try await run(desktop, "pull", desktop.store.path, "--document", "notes")
            try expectFailure(pull, 65, "tampered")
            #expect(try pull.errorMessage().contains("--whole"), "\(pull)")
            let problem = try await run(laptop, "verify").json()["problems"]?[0]
            #expect(problem?["message"]?.string?.contains("--whole") == true)
            #expect(try await run(laptop, "push", laptop.store.path, "--document", "notes", "--whole").status == 0)
            #expect(try await run(desktop, "pull", desktop.store.path, "--document", "notes").status == 0)
        }

        @Test("A damaged manifest is removed by the second push of the client that wrote it, as pull and verify say")
        func damagedManifest() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            func run(_ device: Device, _ arguments: String...) async throws -> CommandResult {
                try await fixture.run(arguments + device.options + ["--json"], environment: Self.password)
            }
            let push = try await run(laptop, "push", laptop.store.path, "--document", "notes")
            let client = try #require(try push.json()["client"]?.string)
            let manifest = try #require(try fixture.manifests().first)
            try fixture.flipByte(at: 200, of: fixture.share.appending(path: manifest))
            let pull = try await run(desktop, "pull", desktop.store.path, "--document", "notes")
            try expectFailure(pull, 65, "tampered")
            let problem = try await run(laptop, "verify").json()["problems"]?[0]?["message"]?.string
            for message in [try pull.errorMessage(), problem ?? ""] {
                #expect(message.contains("client \(client)") && message.contains("--whole"), "\(message)")
            }
            for _ in 1...2 {
                let push = try await run(laptop, "push", laptop.store.path, "--document", "notes", "--whole")
                #expect(push.status == 0, "\(push)")
                #expect(try await run(desktop, "pull", desktop.store.path, "--document", "notes").status == 0)
            }
            #expect(try await run(laptop, "verify").status == 0)
        }

        @Test("A missing upload is named at the beginning of a sentence")
        func sentence() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            for note in ["one", "two"] {
                try await device.push(adding: note)
            }
            let newest = try #require(try fixture.manifests().first { $0.contains("/manifest-2-") })
            try FileManager.default.removeItem(at: fixture.share.appending(path: newest))
            try device.write("three")
            let push = try await device.push()
            try expectFailure(push, 65, "rolledBack")
            #expect(try push.errorMessage().hasPrefix("Generation 2 of client "), "\(push)")
            // The same error also ends a sync, which has no --whole.
            #expect(try push.errorMessage().hasSuffix("Try again later; if it is lost, push with --whole."), "\(push)")
        }

        @Test("Many deleted rows are published with the option that the error names")
        func deletions() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try execute(
                """
                CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
                WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT 102)
                INSERT INTO note (title) SELECT 'note ' || n FROM number
                """,
                device
            )
            func sync(_ arguments: String...) async throws -> CommandResult {
                let command = ["sync", device.store.path, "--document", "notes", "--no-encrypt", "--json"]
                return try await fixture.run(command + arguments + device.options)
            }
            #expect(try await sync().status == 0)
            try execute("DELETE FROM note", device)
            let refused = try await sync()
            try expectFailure(refused, 65, "massDeletion")
            #expect(try refused.errorMessage().contains("--allow-deletions"))
            #expect(try await sync("--allow-deletions").status == 0)
        }

        private func execute(_ sql: String, _ device: Device) throws {
            let queue = try DatabaseQueue(path: device.store.path)
            try queue.write { try $0.execute(sql: sql) }
            try queue.close()
        }

        @Test("Vacuum on a device that hasn't synchronized shows the whole command to do that")
        func vacuum() async throws {
            let device = try Fixture().device("laptop")
            try await device.push(adding: "one")
            let vacuum = try await device.run("vacuum", "--document", "notes")
            try expectFailure(vacuum, 66, "storeNotFound")
            #expect(try vacuum.errorMessage().contains("storesync sync STORE --document notes"), "\(vacuum)")
        }

        @Test(
            "An address that isn't a URL isn't printed, since it may hold a password",
            arguments: ["webdavs://me:se#cret@nas/sync", "webdavs://me:secret@nas:port/sync", "se cret"]
        )
        func address(remote: String) async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(["status", "--remote", remote, "--app", "a", "--json"])
            try expectFailure(result, 64, "usage")
            #expect(!"\(result)".contains("cret"))
        }

        @Test("The error of a file URL without a path in UTF-8 says so", arguments: ["file:notes", "file:///tmp/%FF"])
        func path(remote: String) async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(["status", "--remote", remote, "--app", "a", "--json"])
            try expectFailure(result, 64, "usage")
            #expect(try result.errorMessage().contains("names no path in UTF-8"), "\(result)")
        }

        @Test("What isn't a file is named for what it is")
        func files() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let null = try await device.run("push", "/dev/null", "--document", "notes", "--no-encrypt")
            try expectFailure(null, 66, "storeNotFound")
            #expect(try null.errorMessage().hasPrefix("/dev/null is a device, a pipe or a socket"), "\(null)")
            let link = device.home.appending(path: "link.sqlite")
            try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "/nowhere/store.sqlite")
            let dangling = try await device.run("push", link.path, "--document", "notes", "--no-encrypt")
            try expectFailure(dangling, 66, "storeNotFound")
            #expect(try dangling.errorMessage().contains("is a symbolic link to a file that doesn't exist"))
            let rules = try await fixture.run(["check", device.store.path, "--rules", "/nowhere", "--json"])
            try expectFailure(rules, 64, "usage")
            #expect(try rules.errorMessage() == "There is no file /nowhere with rules. Check the path.")
        }
    }
}
