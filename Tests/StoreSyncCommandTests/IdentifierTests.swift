import Foundation
import Testing

extension CommandTests {
    @Suite("Identifiers that some storage can't hold are refused before anything is written", .serialized)
    struct IdentifierTests {
        static let bad = [
            "../x", "a/b", "", String(repeating: "a", count: 300), ".", "..", "CON", "con.txt", "a.", "a%00b", "ä",
            " a",
            "a\n",
        ]

        private func expectRefusal(_ arguments: [String], _ fixture: Fixture) async throws {
            let before = try Listing(of: fixture.folder)
            let result = try await fixture.run(arguments)
            #expect(result.status == 64, "\(result)")
            #expect(try result.errorCode() == "invalidIdentifier")
            #expect(try !result.errorMessage().isEmpty)
            #expect(try Listing(of: fixture.folder) == before)
        }

        @Test("--app", arguments: bad)
        func application(identifier: String) async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let options = ["--remote", "file://\(fixture.share.path)", "--state", device.state.path, "--json"]
            try await expectRefusal(device.pushArguments + options + ["--app", identifier], fixture)
            try await expectRefusal(device.pullArguments + options + ["--app", identifier], fixture)
            try await expectRefusal(["register", "--no-encrypt", "--app", identifier] + options, fixture)
            try await expectRefusal(["status", "--app", identifier] + options, fixture)
            try await expectRefusal(["verify", "--repair", "--app", identifier] + options, fixture)
        }

        @Test("--document", arguments: bad)
        func document(identifier: String) async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            let arguments = [device.store.path, "--document", identifier, "--no-encrypt", "--json"] + device.options
            try await expectRefusal(["push"] + arguments, fixture)
            try await expectRefusal(["pull"] + arguments, fixture)
        }

        @Test("--from", arguments: bad)
        func from(identifier: String) async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let arguments = device.pullArguments + device.options + ["--from", identifier, "--json"]
            try await expectRefusal(arguments, fixture)
        }

        @Test("Names that differ only in case are refused, and the share stays as it was")
        func differentCase() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try await device.push(adding: "one")
            let before = try Listing(of: fixture.share)
            let document = try await device.run("push", device.store.path, "--document", "NOTES", "--no-encrypt")
            #expect(document.status == 64)
            #expect(try document.errorCode() == "invalidIdentifier")
            let application = try await fixture.run(
                ["register", "--no-encrypt", "--json", "--remote", "file://\(fixture.share.path)"]
                    + ["--state", device.state.path, "--app", "org.example.Notes"]
            )
            #expect(application.status == 64)
            #expect(try application.errorCode() == "invalidIdentifier")
            #expect(try Listing(of: fixture.share) == before)
        }
    }
}
