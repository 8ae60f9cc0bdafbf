import Foundation
import Testing

extension CommandTests {
    @Suite("With --json, a command prints one object", .serialized)
    struct JSONTests {
        private static let transferKeys: Set = [
            "command", "application", "client", "document", "generation", "bytes", "storedBytes", "encrypted",
            "seconds",
        ]

        @Test("Push and pull report what they transferred, and an unchanged push keeps its generation")
        func transfer() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")

            let push = try await laptop.push()
            #expect(push.status == 0, "\(push)")
            let pushed = try push.json()
            #expect(pushed.keys == Self.transferKeys)
            #expect(pushed["command"]?.string == "push")
            #expect(pushed["application"]?.string == "org.example.notes")
            #expect(pushed["document"]?.string == "notes")
            #expect(pushed["generation"]?.number == 1)
            #expect(pushed["encrypted"]?.boolean == false)
            let size = try FileManager.default.attributesOfItem(atPath: laptop.store.path)[.size] as? Int
            #expect(pushed["bytes"]?.number == size.map(Double.init))
            #expect(push.errorOutput.isEmpty)

            let again = try await laptop.push().json()
            #expect(again.keys == Self.transferKeys.union(["unchanged"]))
            #expect(again["unchanged"]?.boolean == true)
            #expect(again["generation"]?.number == 1)

            let pull = try await desktop.pull()
            #expect(pull.status == 0, "\(pull)")
            let pulled = try pull.json()
            #expect(pulled.keys == Self.transferKeys.union(["from"]))
            #expect(pulled["command"]?.string == "pull")
            #expect(pulled["from"] == pushed["client"])
            #expect(pulled["client"] != pushed["client"])
            #expect(try desktop.notes() == ["one"])
            #expect(try Listing(of: fixture.temporary).isEmpty)
        }

        @Test("Register says whether this client created the application")
        func register() async throws {
            let fixture = try Fixture()
            let first = try await fixture.device("laptop").run("register", "--no-encrypt").json()
            #expect(first.keys == ["command", "application", "client", "encrypted", "created"])
            #expect(first["command"]?.string == "register")
            #expect(first["created"]?.boolean == true)
            let second = try await fixture.device("desktop").run("register", "--no-encrypt").json()
            #expect(second["created"]?.boolean == false)
            #expect(second["client"] != first["client"])
        }

        @Test("Status lists clients, documents and stores, with times in ISO 8601 and UTC")
        func status() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try laptop.write("one")
            _ = try await laptop.push("--description", "a laptop")

            let status = try await laptop.run("status").json()
            let statusKeys: Set = [
                "application", "client", "encrypted", "encryption", "remote", "clients", "documents", "unreadable",
            ]
            #expect(status.keys == statusKeys)
            #expect(status["encryption"] == .null)
            #expect(status["unreadable"] == .array([]))
            #expect(status["remote"]?["identity"]?.string?.hasPrefix("file://") == true)
            let capabilities = try #require(status["remote"]?["capabilities"]?.array)
            #expect(capabilities.contains(.string("exclusiveCreate")))
            let client = try #require(status["client"]?.string)
            #expect(status["clients"]?.array?.count == 1)
            #expect(status["clients"]?[0]?.keys == ["client", "description", "documents", "lastSync"])
            #expect(status["clients"]?[0]?["client"]?.string == client)
            #expect(status["clients"]?[0]?["description"]?.string == "a laptop")
            #expect(status["clients"]?[0]?["documents"] == .array([.string("notes")]))
            let document = try #require(status["documents"]?[0])
            #expect(document.keys == ["document", "description", "stores", "lastSync"])
            let store = try #require(document["stores"]?[0])
            #expect(store.keys == ["client", "generation", "bytes", "modified"])
            #expect(store["client"]?.string == client)
            let time = try #require(store["modified"]?.string)
            #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/) != nil, "\(time)")

            let stranger = try await fixture.device("stranger").run("status").json()
            #expect(stranger.keys == statusKeys)
            #expect(stranger["client"] == .null)
        }

        @Test("Status says what an encrypted application is encrypted with, and whether this device has the keys")
        func encryption() async throws {
            let fixture = try Fixture()
            let (laptop, stranger) = (try fixture.device("laptop"), try fixture.device("stranger"))
            let password = ["STORESYNC_PASSWORD": "correct horse"]
            #expect(try await laptop.run("register", environment: password).status == 0)
            let status = try await laptop.run("status").json()
            let encryption = try #require(status["encryption"])
            #expect(encryption.keys == ["suite", "passes", "memoryKibibytes", "passwordVersion", "epoch", "hasKeys"])
            #expect(encryption["suite"]?.string == "argon2id-xchacha20poly1305-blake2b")
            #expect(encryption["passes"]?.number == 3 && encryption["memoryKibibytes"]?.number == 262_144)
            #expect(encryption["passwordVersion"]?.number == 1)
            #expect(encryption["hasKeys"]?.boolean == true)
            let epoch = try #require(encryption["epoch"]?.string)
            #expect(UUID(uuidString: epoch) != nil)
            let change = password.merging(["STORESYNC_NEW_PASSWORD": "another"]) { $1 }
            let changed = try await laptop.run("password", "change", environment: change).json()
            #expect(changed.keys == ["command", "application", "passwords", "passwordVersion"])
            #expect(changed["passwords"]?.number == 2 && changed["passwordVersion"]?.number == 2)
            let other = try await stranger.run("status", environment: ["STORESYNC_PASSWORD": "another"]).json()
            #expect(other["encryption"]?["hasKeys"]?.boolean == false)
            #expect(other["encryption"]?["passwordVersion"]?.number == 2)
            #expect(other["encryption"]?["epoch"]?.string == epoch)
            let text = try await fixture.run(["status"] + laptop.options).output
            for words in [
                "argon2id-xchacha20poly1305-blake2b", epoch, "password 2", "3 passes over 262144 KiB", "has the keys",
            ] {
                #expect(text.contains(words), "\(words) in \(text)")
            }
        }

        @Test("Status names files that it can't read: as objects in JSON, as warnings in text")
        func unreadable() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try laptop.write("one")
            _ = try await laptop.push()
            let names = try Listing(of: fixture.share).paths.filter {
                $0.contains("manifest-") || $0.hasSuffix("Info.plist")
            }
            #expect(names.count == 3)
            for name in names { try Data("<plist".utf8).write(to: fixture.share.appending(path: name)) }
            let status = try await laptop.run("status")
            #expect(status.status == 0 && status.errorOutput.isEmpty, "\(status)")
            let unreadable = try #require(try status.json()["unreadable"]?.array)
            #expect(unreadable.compactMap { $0["path"]?.string } == names)
            #expect(
                unreadable.allSatisfy { $0.keys == ["path", "code", "message"] && $0["code"]?.string == "corrupt" }
            )
            let text = try await fixture.run(["status"] + laptop.options)
            #expect(text.status == 0)
            for name in names { #expect(text.errorOutput.contains("warning:") && text.errorOutput.contains(name)) }
        }

        @Test("Verify counts files and bytes")
        func verify() async throws {
            let laptop = try Fixture().device("laptop")
            try laptop.write("one")
            _ = try await laptop.push()
            let result = try await laptop.run("verify")
            #expect(result.status == 0)
            let report = try result.json()
            #expect(report.keys == ["command", "files", "bytes", "problems", "warnings", "repaired"])
            #expect(report["command"]?.string == "verify")
            #expect(try #require(report["files"]?.number) > 5)
            #expect(report["problems"] == .array([]))
            #expect(report["warnings"] == .array([]))
            #expect(report["repaired"] == .array([]))
        }

        @Test(
            "Bad arguments are an error object with the code usage",
            arguments: [
                ["push"], ["push", "store"], ["pull"], ["register", "--nonsense"], ["status", "surplus"],
                ["verify", "--repair=maybe"], ["nonsense"], [], ["push", "store", "--document", "notes"],
                ["push", "store", "--document", "notes", "--encrypt", "--no-encrypt"],
            ]
        )
        func usage(arguments: [String]) async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(arguments + ["--json"])
            #expect(result.status == 64, "\(result)")
            #expect(try result.errorCode() == "usage")
            #expect(try !result.errorMessage().isEmpty)
        }

        @Test(
            "An invalid remote is an error object with the code usage",
            arguments: [
                "", "nonsense", "/tmp", "gopher://host/path", "file://host/path", "file:relative", "file:///tmp/a%00b",
                "file:///tmp/%ff", "file://",
            ]
        )
        func remote(url: String) async throws {
            let fixture = try Fixture()
            let result = try await fixture.run(
                ["register", "--no-encrypt", "--app", "org.example.notes", "--remote", url, "--json"]
            )
            #expect(result.status == 64, "\(result)")
            #expect(try result.errorCode() == "usage")
            #expect(try Listing(of: fixture.folder).paths == ["home", "share", "temporary"])
        }

        @Test("Without --json, an error is a sentence on standard error, and standard output stays empty")
        func sentences() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let result = try await fixture.run(device.pushArguments + device.options)
            #expect(result.status == 66)
            #expect(result.output.isEmpty)
            #expect(result.errorOutput.contains("[storeNotFound]"))
        }

        @Test("--quiet and --verbose contradict each other, also for a command that needs no remote")
        func contradiction() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            for command in [["status"] + laptop.options, ["check", laptop.store.path], ["demo"]] {
                let result = try await fixture.run(command + ["--quiet", "--verbose", "--json"])
                #expect(result.status == 64, "\(result)")
                #expect(try result.errorMessage().contains("--quiet and --verbose contradict each other"), "\(result)")
            }
        }

        @Test("Warnings go to standard error, beside the one object")
        func warnings() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            _ = try await laptop.push()
            _ = try await desktop.pull()
            try laptop.write("two")
            _ = try await laptop.push()
            try desktop.write("other")
            let push = try await desktop.push()
            #expect(push.status == 0)
            #expect(try push.json()["command"]?.string == "push")
            #expect(push.errorOutput.contains("warning:"))
            try desktop.write("more")
            let quiet = try await desktop.push("--quiet")
            #expect(quiet.status == 0)
            #expect(quiet.errorOutput.isEmpty)
        }
    }
}
