import Foundation
import Testing

extension CommandTests {
    @Suite("The user decides whether to encrypt, and the command never guesses", .serialized)
    struct DecisionTests {
        private func expectRefusal(
            _ fixture: Fixture,
            _ arguments: [String],
            _ code: String,
            environment: [String: String] = [:],
            sourceLocation: SourceLocation = #_sourceLocation
        ) async throws -> String {
            let before = try Listing(of: fixture.share)
            let result = try await fixture.run(arguments + ["--json"], environment: environment)
            let status: Int32 = ["passwordRequired", "wrongPassword"].contains(code) ? 77 : 64
            #expect(result.status == status, "\(result)", sourceLocation: sourceLocation)
            #expect(try result.errorCode() == code, sourceLocation: sourceLocation)
            #expect(try Listing(of: fixture.share) == before, sourceLocation: sourceLocation)
            return try result.errorMessage()
        }

        @Test("The first registration without a decision and without a terminal names both options")
        func undecided() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let push = ["push", device.store.path, "--document", "notes"] + device.options
            for arguments in [push, ["register"] + device.options] {
                let message = try await expectRefusal(fixture, arguments, "encryptionUndecided")
                #expect(message.contains("--encrypt"))
                #expect(message.contains("--no-encrypt"))
            }
            #expect(try Listing(of: fixture.share).isEmpty)
        }

        @Test("An option, a password file or the environment requests encryption; without a password it's an error")
        func encryption() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let file = device.home.appending(path: "password").path
            try Data("secret\n".utf8).write(to: URL(fileURLWithPath: file))
            let push = ["push", device.store.path, "--document", "notes"] + device.options
            for arguments in [push, ["register"] + device.options] {
                let message = try await expectRefusal(fixture, arguments + ["--encrypt"], "passwordRequired")
                #expect(message.contains("--password-file") && message.contains("STORESYNC_PASSWORD"))
            }
            #expect(try Listing(of: fixture.share).isEmpty)
            let registered = try await fixture.run(["register", "--password-file", file, "--json"] + device.options)
            #expect(try registered.json()["encrypted"]?.boolean == true, "\(registered)")
            // The device keeps the keys, so the password isn't needed again.
            let pushed = try await fixture.run(push + ["--json"])
            #expect(try pushed.json()["encrypted"]?.boolean == true, "\(pushed)")
            #expect(!pushed.output.contains("secret") && !pushed.errorOutput.contains("secret"))
            // A new device needs the password.
            let desktop = try fixture.device("desktop")
            let pull = ["pull", desktop.store.path, "--document", "notes"] + desktop.options
            _ = try await expectRefusal(fixture, pull, "passwordRequired")
            _ = try await expectRefusal(fixture, pull, "wrongPassword", environment: ["STORESYNC_PASSWORD": "Secret"])
            _ = try await expectRefusal(fixture, pull + ["--no-encrypt"], "encryptionMismatch")
            let pulled = try await fixture.run(pull + ["--json"], environment: ["STORESYNC_PASSWORD": "secret"])
            #expect(try pulled.json()["encrypted"]?.boolean == true, "\(pulled)")
            #expect(try desktop.notes() == ["one"])
        }

        @Test("After a password change, a new device needs the new password; a device with keys needs none")
        func passwordChange() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let push = ["push", laptop.store.path, "--document", "notes"] + laptop.options
            #expect(try await fixture.run(push, environment: ["STORESYNC_PASSWORD": "old"]).status == 0)
            let change = ["password", "change"] + laptop.options
            _ = try await expectRefusal(fixture, change, "usage")
            let changed = try await fixture.run(change + ["--json"], environment: ["STORESYNC_NEW_PASSWORD": "new"])
            #expect(changed.status == 0, "\(changed)")
            try laptop.write("two")
            #expect(try await fixture.run(push).status == 0)
            let pull = ["pull", desktop.store.path, "--document", "notes"] + desktop.options
            _ = try await expectRefusal(fixture, pull, "wrongPassword", environment: ["STORESYNC_PASSWORD": "old"])
            #expect(try await fixture.run(pull, environment: ["STORESYNC_PASSWORD": "new"]).status == 0)
            #expect(try desktop.notes() == ["one", "two"])
        }

        @Test("A password is hashed in the memory that --password-memory says, and a changed one in no less")
        func passwordMemory() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            func memory() async throws -> Double? {
                try await laptop.run("status").json()["encryption"]?["memoryKibibytes"]?.number
            }
            for wrong in ["0", "63", "1025", "much", "9223372036854775807"] {
                let register = ["register", "--password-memory", wrong] + laptop.options
                let environment = ["STORESYNC_PASSWORD": "old"]
                #expect(try await fixture.run(register, environment: environment).status == 64, "\(wrong)")
            }
            let register = ["register", "--password-memory", "64"] + laptop.options
            #expect(try await fixture.run(register, environment: ["STORESYNC_PASSWORD": "old"]).status == 0)
            #expect(try await memory() == 65_536)
            for (arguments, kibibytes) in [([], 65_536), (["96"], 98_304), (["64"], 98_304)] as [([String], Double)] {
                let option = arguments.isEmpty ? [] : ["--password-memory"] + arguments
                let change = ["password", "change"] + option + laptop.options
                #expect(try await fixture.run(change, environment: ["STORESYNC_NEW_PASSWORD": "new"]).status == 0)
                #expect(try await memory() == kibibytes)
            }
            let help = try await fixture.run(["password", "change", "--help"]).output
            let words = help.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            #expect(words.contains("A changed password takes at least as much as the former one"), "\(help)")
        }

        @Test("A password file that is missing, empty or not UTF-8 is a usage error, and leaves no trace")
        func badPasswordFile() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let file = device.home.appending(path: "password")
            func expectMessage(_ words: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
                for command in [["push", device.store.path, "--document", "notes"], ["register"], ["status"]] {
                    let arguments = command + ["--password-file", file.path] + device.options
                    let message = try await expectRefusal(fixture, arguments, "usage", sourceLocation: sourceLocation)
                    #expect(message.contains(file.path) && message.contains(words), sourceLocation: sourceLocation)
                }
                #expect(!FileManager.default.fileExists(atPath: device.state.path), sourceLocation: sourceLocation)
            }
            try await expectMessage("can't be read")
            for empty in ["", "\n", "\r\n"] {
                try Data(empty.utf8).write(to: file)
                try await expectMessage("is empty")
            }
            try Data([0xFF, 0xFE]).write(to: file)
            try await expectMessage("isn't UTF-8")
            try Data(repeating: 0x61, count: (1 << 16) + 1).write(to: file)
            try await expectMessage("more than")
            try FileManager.default.removeItem(at: file)
            try FileManager.default.createDirectory(at: file, withIntermediateDirectories: false)
            try await expectMessage("can't be read")
            let arguments = ["register"] + device.options
            let unnamed = try await expectRefusal(fixture, arguments + ["--password-file", ""], "usage")
            #expect(unnamed == "The name of the password file is empty. Name a file.")
            let environment = ["STORESYNC_PASSWORD": ""]
            let message = try await expectRefusal(fixture, arguments, "usage", environment: environment)
            #expect(message.contains("STORESYNC_PASSWORD holds no password"))
        }

        @Test("A password and --no-encrypt contradict each other")
        func contradiction() async throws {
            let fixture = try Fixture()
            let arguments = ["register", "--no-encrypt"] + (try fixture.device("laptop").options)
            let environment = ["STORESYNC_PASSWORD": "secret"]
            _ = try await expectRefusal(fixture, arguments, "usage", environment: environment)
            #expect(try Listing(of: fixture.folder).paths == ["home", "laptop", "share", "temporary"])
        }

        @Test("Joining an unencrypted application needs --no-encrypt the first time, not the second")
        func joining() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            let pull = ["pull", desktop.store.path, "--document", "notes"] + desktop.options
            let message = try await expectRefusal(fixture, pull, "encryptionUndecided")
            #expect(
                message.contains("--no-encrypt") && message.contains("another application with --app"),
                "\(message)"
            )
            #expect(!FileManager.default.fileExists(atPath: desktop.store.path))
            #expect(try await fixture.run(pull + ["--no-encrypt"]).status == 0)
            #expect(try await fixture.run(pull).status == 0)
            let push = ["push", laptop.store.path, "--document", "notes"] + laptop.options
            #expect(try await fixture.run(push).status == 0)
        }

        @Test("A password or --encrypt against an unencrypted application is an error, joined or not")
        func mismatch() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            for device in [laptop, desktop] { try device.write("one") }
            #expect(try await laptop.push().status == 0)
            for device in [laptop, desktop] {
                let before = try Listing(of: device.home).withoutState
                for command in ["push", "pull"] {
                    let arguments = [command, device.store.path, "--document", "notes"] + device.options
                    let option = try await expectRefusal(fixture, arguments + ["--encrypt"], "encryptionMismatch")
                    let environment = ["STORESYNC_PASSWORD": "secret"]
                    let password = try await expectRefusal(
                        fixture,
                        arguments,
                        "encryptionMismatch",
                        environment: environment
                    )
                    let remedy = "leave out --encrypt, --password-file and STORESYNC_PASSWORD"
                    #expect(option.contains(remedy) && password.contains(remedy), "\(option) \(password)")
                }
                #expect(try Listing(of: device.home).withoutState == before)
            }
        }
    }
}
