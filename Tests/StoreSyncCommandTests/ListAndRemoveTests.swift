import Foundation
import Testing

extension CommandTests {
    @Suite("The command lists and removes documents, clients and applications", .serialized)
    struct ListAndRemoveTests {
        private static let password = ["STORESYNC_PASSWORD": "correct horse"]

        /// A laptop that has pushed a document, and a desktop that has pulled it.
        private func devices(_ fixture: Fixture) async throws -> (laptop: Device, desktop: Device) {
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            #expect(try await laptop.push("--description", "a laptop").status == 0)
            #expect(try await desktop.pull("--description", "a desktop").status == 0)
            return (laptop, desktop)
        }

        @Test("H5, H6, H8, H9, H11: `list documents` and `list clients` print what is known, in JSON and in text")
        func list() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            let own = try await laptop.run("status").json()["client"]
            let stranger = try fixture.device("stranger")
            let documents = try await stranger.run("list", "documents").json()
            #expect(documents.keys == ["application", "documents", "unreadable"])
            #expect(documents["application"]?.string == "org.example.notes")
            #expect(documents["unreadable"] == .array([]))
            let document = try #require(documents["documents"]?[0])
            let keys: Set = [
                "document", "description", "userInfo", "originalDevice", "originalDeviceDescription", "lastSync",
                "clients",
            ]
            #expect(document.keys == keys)
            #expect(document["document"]?.string == "notes" && document["description"]?.string == "store.sqlite")
            #expect(document["userInfo"] == .object([:]))
            #expect(document["originalDevice"] == own && document["originalDeviceDescription"]?.string == "a laptop")
            #expect(document["clients"]?.array?.count == 2)
            let times = try #require(document["clients"]?.array).compactMap { $0["lastSync"]?.string }
            #expect(times.count == 2 && times.max() == document["lastSync"]?.string)
            #expect(times.allSatisfy { $0.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil }, "\(times)")

            let clients = try await stranger.run("list", "clients").json()
            #expect(clients.keys == ["application", "clients", "unreadable"])
            let all = try #require(clients["clients"]?.array)
            #expect(Set(all.compactMap { $0["description"]?.string }) == ["a laptop", "a desktop"])
            #expect(all.allSatisfy { $0.keys == ["client", "description", "userInfo", "documents", "lastSync"] })
            #expect(all.allSatisfy { $0["documents"] == .array([.string("notes")]) })
            let ofDocument = try await stranger.run("list", "clients", "--document", "notes").json()
            #expect(ofDocument["document"]?.string == "notes" && ofDocument["clients"] == clients["clients"])
            let text = try await fixture.run(["list", "documents"] + desktop.options).output
            #expect(
                text.contains("notes  store.sqlite") && text.contains("a laptop") && text.contains("synchronized 20")
            )
            let lines = try await fixture.run(["list", "clients"] + desktop.options).output
            #expect(lines.contains("a laptop") && lines.contains("a desktop") && lines.contains("synchronized 20"))
            #expect(try await laptop.run("status").json()["clients"]?.array?.count == 2, "a list registers no device")
            try expectFailure(try await stranger.run("list", "clients", "--document", "other"), 66, "documentNotFound")
            try expectFailure(try await stranger.run("list"), 64, "usage")
        }

        @Test("A damaged entry of a list is an object in JSON and a warning in text, and the status is 0")
        func damaged() async throws {
            let fixture = try Fixture()
            let (laptop, _) = try await devices(fixture)
            let names = try Listing(of: fixture.share).paths.filter { $0.hasSuffix(".recentsync") }
            #expect(names.count == 2)
            try Data("<plist".utf8).write(to: fixture.share.appending(path: names[0]))
            for arguments in [["list", "documents"], ["list", "clients"], ["status"]] {
                let result = try await fixture.run(arguments + laptop.options + ["--json"])
                #expect(result.status == 0 && result.errorOutput.isEmpty, "\(result)")
                let unreadable = try #require(try result.json()["unreadable"]?.array)
                #expect(unreadable.compactMap { $0["path"]?.string } == [names[0]])
                let text = try await fixture.run(arguments + laptop.options)
                #expect(
                    text.status == 0 && text.errorOutput.contains("warning:") && text.errorOutput.contains(names[0])
                )
            }
        }

        @Test("`status` knows its own client although that client's file can't be read")
        func unreadableClient() async throws {
            let fixture = try Fixture()
            let (laptop, _) = try await devices(fixture)
            let client = try #require(try await laptop.run("status").json()["client"]?.string)
            let name = try #require(
                try Listing(of: fixture.share).paths.first { $0.hasSuffix("ClientDevices/\(client)/deviceInfo.plist") }
            )
            try Data("<plist".utf8).write(to: fixture.share.appending(path: name))
            let text = try await fixture.run(["status"] + laptop.options)
            #expect(text.status == 0 && text.errorOutput.contains(name), "\(text)")
            #expect(text.output.contains("this device is client \(client)"), "\(text)")
            #expect(text.output.contains("a desktop") && !text.output.contains("a laptop"), "\(text)")
        }

        @Test(
            "H22: `remove document` asks, other devices are told by status 66, and `push --recreate` creates it again"
        )
        func removeDocument() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            try expectFailure(try await laptop.run("remove", "document", "notes"), 64, "usage")
            try expectFailure(try await laptop.run("remove", "document", "other", "--yes"), 66, "documentNotFound")
            #expect(try await laptop.run("list", "documents").json()["documents"]?.array?.count == 1)
            let removed = try await laptop.run("remove", "document", "notes", "--yes")
            #expect(removed.status == 0, "\(removed)")
            #expect(
                try removed.json()
                    == .object([
                        "command": .string("remove document"), "application": .string("org.example.notes"),
                        "document": .string("notes"),
                    ])
            )
            #expect(try await laptop.run("list", "documents").json()["documents"] == .array([]))
            for device in [laptop, desktop] {
                try expectFailure(try await device.push(), 66, "documentDeleted")
                try expectFailure(try await device.pull(), 66, "documentDeleted")
                #expect(try device.notes() == ["one"])
            }
            #expect(try await laptop.push("--recreate").status == 0)
            try expectFailure(try await desktop.push(), 65, "documentReplaced")
            #expect(try await desktop.pull().status == 0)
            #expect(try await desktop.run("verify").status == 0)
        }

        @Test("H10, H23: `remove client` removes a client from a document, or from the application")
        func removeClient() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            let client = try #require(try await desktop.run("status").json()["client"]?.string)
            let itself = try await desktop.run("remove", "client", client, "--yes")
            try expectFailure(itself, 64, "invalidIdentifier")
            #expect(try itself.errorMessage().hasSuffix("Remove it from another device."), "\(itself)")
            let arguments = ["remove", "client", client, "--document", "notes"] + laptop.options + ["--json"]
            try expectFailure(try await fixture.run(arguments), 64, "usage")
            let removed = try await fixture.run(arguments + ["--yes"])
            #expect(removed.status == 0, "\(removed)")
            #expect(try removed.json().keys == ["command", "application", "client", "document"])
            #expect(try removed.json()["command"]?.string == "remove client")
            let left = try await laptop.run("list", "clients", "--document", "notes").json()
            #expect(left["clients"]?.array?.count == 1)
            try desktop.write("two")
            try expectFailure(try await desktop.push(), 65, "documentReplaced")
            #expect(try await desktop.pull("--overwrite").status == 0)
            #expect(try await laptop.run("remove", "client", client, "--yes").status == 0)
            try expectFailure(try await desktop.push(), 77, "deregistered")
            #expect(try await laptop.run("list", "clients").json()["clients"]?.array?.count == 1)
            let text = try await fixture.run(["status"] + desktop.options).output
            #expect(text.contains("this device isn't registered: client \(client) was removed"), "\(text)")
            #expect(try await fixture.run(["status"] + laptop.options).output.contains("this device is client "))
        }

        @Test("Without an answer nothing is removed, which a line of its own says")
        func noAnswer() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            for (arguments, prompt) in [(["document", "notes"], "[y/n]"), (["application"], "to confirm")] {
                // Ends the input.
                let end = ChildProcess.Reaction(text: prompt) { $0.send("\u{4}") }
                let all = ["remove"] + arguments + laptop.options
                let result = await (try fixture.start(all, onTerminal: true, reactions: [end])).finish()
                let lines = result.errorOutput.split(whereSeparator: \.isNewline)
                #expect(result.status == 130, "\(result)")
                #expect(lines.last == "storesync: Interrupted. Nothing was removed. [interrupted]", "\(result)")
            }
        }

        @Test("`remove application` asks for the name, and removes everything")
        func removeApplication() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            let register = ["register"] + laptop.options + ["--json"]
            #expect(try await fixture.run(register, environment: Self.password).status == 0)
            let arguments = ["remove", "application"] + laptop.options + ["--json"]
            try expectFailure(try await fixture.run(arguments), 64, "usage")
            for (answer, status) in [("y", 64), ("org.example", 64), ("org.example.notes", 0)] {
                #expect(try !Listing(of: fixture.share).isEmpty)
                let child = try fixture.start(arguments, onTerminal: true)
                child.send("\(answer)\n")
                let result = await child.finish()
                #expect(result.status == Int32(status), "\(answer): \(result)")
                #expect(result.errorOutput.contains("org.example.notes"))
                guard status != 0 else { continue }
                let message = try result.errorMessage()
                #expect(message == "The name wasn't org.example.notes, so nothing was removed.")
            }
            #expect(try Listing(of: fixture.share).isEmpty)
            #expect(try await laptop.run("remove", "application", "--yes").status == 0, "removing it again")
            let desktop = try fixture.device("desktop")
            try expectFailure(try await desktop.run("remove", "application", "--yes"), 66, "applicationMissing")
            #expect(try await desktop.run("register", "--no-encrypt").status == 0)
            let removed = try await desktop.run("remove", "application", "--yes")
            #expect(try removed.json().keys == ["command", "application"] && removed.status == 0)
            #expect(try removed.json()["command"]?.string == "remove application")
        }

        @Test("An encrypted application is removed only with its password or keys, and a list needs them too")
        func passwords() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            let register = ["register"] + laptop.options + ["--json"]
            #expect(try await fixture.run(register, environment: Self.password).status == 0)
            let stranger = try fixture.device("stranger")
            let before = try Listing(of: fixture.share)
            for arguments in [["list", "documents"], ["list", "clients"], ["remove", "application", "--yes"]] {
                let all = arguments + stranger.options + ["--json"]
                try expectFailure(try await fixture.run(all), 77, "passwordRequired")
                let wrong = ["STORESYNC_PASSWORD": "another"]
                try expectFailure(try await fixture.run(all, environment: wrong), 77, "wrongPassword")
            }
            #expect(try Listing(of: fixture.share) == before)
            let list = ["list", "clients"] + stranger.options + ["--json"]
            #expect(try await fixture.run(list, environment: Self.password).status == 0)
            #expect(try await laptop.run("remove", "application", "--yes").status == 0)
        }
    }
}
