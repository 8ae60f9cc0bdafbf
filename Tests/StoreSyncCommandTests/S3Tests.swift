import Foundation
import S3Servers
import ServerFixtures
import TestSupport
import Testing

extension CommandTests {
    @Suite("A bucket as the remote", .serialized)
    struct S3Tests {
        /// A prefix in a bucket, as the command's options name it.
        private struct Place {
            let server: S3Server
            let prefix = UUID().uuidString

            var remote: String { "s3://\(S3Server.bucket)/\(prefix)" }
            /// The option that names the server; the URL and the environment can name it too.
            var endpoint: [String] { ["--endpoint", server.endpoint().absoluteString] }
        }

        private static let environment = [
            "AWS_ACCESS_KEY_ID": S3Server.accessKeyID, "AWS_SECRET_ACCESS_KEY": S3Server.secret,
            "STORESYNC_PASSWORD": "sealed under this",
        ]

        private func run(
            _ device: Device,
            _ place: Place,
            _ arguments: [String],
            environment: [String: String] = environment
        ) async throws -> CommandResult {
            let result = try await device.fixture.run(
                arguments + [
                    "--remote", place.remote, "--app", "org.example.notes", "--state", device.state.path, "--json",
                    "--verbose",
                ],
                environment: environment
            )
            #expect(!"\(result)".contains(S3Server.secret), "\(result)")
            #expect(!"\(result)".contains("Signature="), "\(result)")
            return result
        }

        @Test(
            "D18: Two devices register, push, pull, show the status and verify, encrypted",
            arguments: TestDepth.choose(
                quick: [S3ServerKind.seaweedFSTLS, .moto],
                ci: [.seaweedFS, .seaweedFSTLS, .moto],
                deep: [.seaweedFS, .seaweedFSTLS, .moto]
            ).filter(\.isInstalled)
        )
        func twoDevices(kind: S3ServerKind) async throws {
            let place = Place(server: try await S3Server.shared(kind))
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let trusting = kind == .seaweedFSTLS ? ["--certificate", place.server.certificate.path] : []
            let options = place.endpoint + trusting
            // Larger than one request may be, so that it is sent in parts.
            try laptop.write("a canary", bytes: 12_000_000)
            let registered = try await run(
                laptop,
                place,
                ["register", "--encrypt", "--password-memory", "64"] + options
            )
            #expect(registered.status == 0, "\(registered)")
            #expect(try registered.json()["created"]?.boolean == true)
            let document = ["--document", "notes"] + options
            let push = try await run(laptop, place, ["push", laptop.store.path] + document)
            #expect(push.status == 0, "\(push)")
            #expect(try push.json()["encrypted"]?.boolean == true)
            let pull = try await run(desktop, place, ["pull", desktop.store.path] + document)
            #expect(pull.status == 0, "\(pull)")
            #expect(try desktop.notes() == ["a canary"])

            try desktop.write("another")
            for (device, command) in [(desktop, "push"), (laptop, "pull")] {
                let result = try await run(device, place, [command, device.store.path] + document)
                #expect(result.status == 0, "\(result)")
            }
            #expect(try laptop.notes() == ["a canary", "another"])

            let status = try await run(laptop, place, ["status"] + options)
            let remote = try status.json()["remote"]
            let endpoint = place.server.endpoint().absoluteString
            #expect(remote?["identity"]?.string == "\(place.remote)?endpoint=\(endpoint)", "\(status)")
            // moto doesn't identify itself, and status doesn't test the storage.
            let capabilities = remote?["capabilities"]?.array
            #expect((capabilities == nil) == (kind == .moto), "\(status)")
            #expect(capabilities?.contains(.string("exclusiveCreate")) != false, "\(status)")
            #expect(try status.json()["clients"]?.array?.count == 2)
            let verify = try await run(laptop, place, ["verify"] + options)
            #expect(verify.status == 0, "\(verify)")
            #expect(try verify.json()["problems"] == .array([]), "\(verify)")
            #expect(try verify.json()["warnings"] == .array([]), "\(verify)")
        }

        @Test(
            "The URL, options, the environment or a profile configure the bucket",
            .enabled(if: S3ServerKind.seaweedFS.isInstalled)
        )
        func naming() async throws {
            let place = Place(server: try await S3Server.shared(.seaweedFS))
            let fixture = try Fixture()
            let endpoint = place.server.endpoint().absoluteString
            let register = ["register", "--no-encrypt", "--app", "org.example.notes", "--json"]
            let profile = fixture.folder.appending(path: "credentials")
            try Data(
                """
                [storage]
                aws_access_key_id = \(S3Server.accessKeyID)
                aws_secret_access_key = \(S3Server.secret)
                """.utf8
            ).write(to: profile)
            let keys = Self.environment.filter { $0.key.hasPrefix("AWS_") }
            let ways: [([String], [String: String])] = [
                (["--remote", place.remote + "?endpoint=\(endpoint)&region=eu-central-1"], keys),
                (["--remote", place.remote, "--endpoint", endpoint, "--region", "eu-central-1"], keys),
                (["--remote", place.remote], keys.merging(["AWS_ENDPOINT_URL_S3": endpoint]) { $1 }),
                (
                    ["--remote", place.remote, "--endpoint", endpoint],
                    ["AWS_PROFILE": "storage", "AWS_SHARED_CREDENTIALS_FILE": profile.path]
                ),
            ]
            for (number, (arguments, environment)) in ways.enumerated() {
                let device = try fixture.device("device \(number)")
                let result = try await fixture.run(
                    register + arguments + ["--state", device.state.path],
                    environment: environment
                )
                #expect(result.status == 0, "\(number): \(result)")
                #expect(try result.json()["created"]?.boolean == (number == 0), "\(number): \(result)")
            }
        }

        @Test(
            "A server that ignores conditions is refused with unsupportedStorage, and no application is begun",
            .enabled(if: S3ServerKind.triesSwift)
        )
        func withoutConditions() async throws {
            let server = try await S3Server.shared(.swift)
            let place = Place(server: server)
            let device = try Fixture().device("laptop")
            try device.write("a canary")
            let environment = [
                "AWS_ACCESS_KEY_ID": S3Server.swiftAccessKeyID, "AWS_SECRET_ACCESS_KEY": S3Server.swiftSecret,
                "STORESYNC_PASSWORD": "sealed under this",
            ]
            for command in [
                ["register", "--encrypt", "--password-memory", "64"],
                ["push", device.store.path, "--document", "notes"],
            ] {
                let result = try await run(device, place, command + place.endpoint, environment: environment)
                #expect(result.status != 0, "\(result)")
                #expect("\(result)".contains("unsupportedStorage"), "\(result)")
            }
            let status = try await run(device, place, ["status"] + place.endpoint, environment: environment)
            #expect("\(status)".contains("applicationMissing"), "\(status)")
        }

        @Test("A missing or wrong setting is an error that names it", .enabled(if: S3ServerKind.seaweedFS.isInstalled))
        func refusals() async throws {
            let place = Place(server: try await S3Server.shared(.seaweedFS))
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let register = ["register", "--no-encrypt"]
            let missing = try await run(device, place, register + place.endpoint, environment: [:])
            #expect(missing.status == 77, "\(missing)")
            #expect(try missing.errorCode() == "remoteUnauthorized")
            #expect(try missing.errorMessage().contains("AWS_ACCESS_KEY_ID"))

            var wrong = Self.environment.filter { $0.key.hasPrefix("AWS_") }
            wrong["AWS_SECRET_ACCESS_KEY"] = "another"
            let refused = try await run(device, place, register + place.endpoint, environment: wrong)
            #expect(refused.status == 77, "\(refused)")
            #expect(try refused.errorCode() == "remoteUnauthorized")
            #expect(!"\(refused)".contains("another"), "\(refused)")

            let keys = Self.environment.filter { $0.key.hasPrefix("AWS_") }
            let options = register + ["--app", "org.example.notes", "--state", device.state.path, "--json"]
            for url in ["s3://user:hidden@bucket/x", "s3://bucket/x?secret=hidden", "s3:///x", "s3://bucket/../x"] {
                let bad = try await fixture.run(options + ["--remote", url], environment: keys)
                #expect(bad.status == 64, "\(bad)")
                #expect(!"\(bad)".contains("hidden"), "\(bad)")
            }
            let nowhere = try await fixture.run(
                options + ["--remote", "s3://no-such-bucket"] + place.endpoint,
                environment: keys
            )
            #expect(nowhere.status == 69, "\(nowhere)")
            #expect(try nowhere.errorMessage().contains("no bucket no-such-bucket"), "\(nowhere)")
        }
    }
}
