import Foundation
import Testing
import WebDAVServers

extension CommandTests {
    @Suite("A WebDAV share as the remote", .serialized)
    struct WebDAVTests {
        private static let password = "correct horse"

        /// The share's URL with a user, as the command expects it.
        private func remote(_ share: WebDAVShare, user: String = "user") -> String {
            let scheme = share.kind == .apacheTLS ? "webdavs" : "webdav"
            return "\(scheme)://\(user)@localhost:\(share.port)\(share.path)"
        }

        private func run(_ device: Device, _ share: WebDAVShare, _ arguments: [String]) async throws -> CommandResult {
            let result = try await device.fixture.run(
                arguments + [
                    "--remote", remote(share), "--app", "org.example.notes", "--state", device.state.path, "--json",
                ],
                environment: ["STORESYNC_WEBDAV_PASSWORD": Self.password, "STORESYNC_PASSWORD": "sealed under this"]
            )
            #expect(!"\(result)".contains(Self.password), "\(result)")
            return result
        }

        @Test(
            "D18: Two devices register, push, pull, show the status and verify, encrypted",
            arguments: [ServerKind.apache, .apacheDigest, .apacheTLS].filter(\.isInstalled)
        )
        func twoDevices(kind: ServerKind) async throws {
            let share = try await WebDAVShare(on: kind)
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let trusting = kind == .apacheTLS ? ["--certificate", share.certificate.path] : []
            try laptop.write("a canary", bytes: 300_000)
            let registered = try await run(
                laptop,
                share,
                ["register", "--encrypt", "--password-memory", "64"] + trusting
            )
            #expect(registered.status == 0, "\(registered)")
            #expect(try registered.json()["created"]?.boolean == true)
            let document = ["--document", "notes"] + trusting
            let push = try await run(laptop, share, ["push", laptop.store.path] + document)
            #expect(push.status == 0, "\(push)")
            #expect(try push.json()["encrypted"]?.boolean == true)
            let pull = try await run(desktop, share, ["pull", desktop.store.path] + document)
            #expect(pull.status == 0, "\(pull)")
            #expect(try desktop.notes() == ["a canary"])

            try desktop.write("another")
            #expect(try await run(desktop, share, ["push", desktop.store.path] + document).status == 0)
            #expect(try await run(laptop, share, ["pull", laptop.store.path] + document).status == 0)
            #expect(try laptop.notes() == ["a canary", "another"])

            let status = try await run(laptop, share, ["status"] + trusting)
            let remote = try status.json()["remote"]
            #expect(
                remote?["identity"]?.string?.hasSuffix("://localhost:\(share.port)\(share.path.dropLast())") == true,
                "\(status)"
            )
            #expect(remote?["capabilities"]?.array?.contains(.string("exclusiveDirectoryMove")) == true, "\(status)")
            #expect(try status.json()["clients"]?.array?.count == 2)
            let verify = try await run(laptop, share, ["verify"] + trusting)
            #expect(verify.status == 0, "\(verify)")
            #expect(try verify.json()["problems"] == .array([]), "\(verify)")
            #expect(try verify.json()["warnings"] == .array([]), "\(verify)")
            for path in try Listing(of: share.folder).paths {
                let file = share.folder.appending(path: path)
                guard let data = try? Data(contentsOf: file) else { continue }
                #expect(data.range(of: Data("a canary".utf8)) == nil, "\(path)")
            }
        }

        @Test(
            "The password may come from a file too, and errors name what is missing",
            .enabled(if: ServerKind.apache.isInstalled)
        )
        func passwords() async throws {
            let share = try await WebDAVShare(on: .apache)
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let file = fixture.folder.appending(path: "webdav password")
            try Data("\(Self.password)\n".utf8).write(to: file)
            let options = [
                "register", "--no-encrypt", "--app", "org.example.notes", "--state", device.state.path, "--json",
            ]
            let found = try await fixture.run(
                options + ["--remote", remote(share), "--remote-password-file", file.path]
            )
            #expect(found.status == 0, "\(found)")

            let missing = try await fixture.run(options + ["--remote", remote(share)])
            #expect(missing.status == 77, "\(missing)")
            #expect(try missing.errorCode() == "remoteUnauthorized")
            #expect(try missing.errorMessage().contains("STORESYNC_WEBDAV_PASSWORD"))

            let wrong = try await fixture.run(
                options + ["--remote", remote(share, user: "stranger")],
                environment: ["STORESYNC_WEBDAV_PASSWORD": Self.password]
            )
            #expect(wrong.status == 77, "\(wrong)")
            #expect(try wrong.errorCode() == "remoteUnauthorized")

            let inURL = try await fixture.run(options + ["--remote", "webdav://user:hidden@localhost:\(share.port)/"])
            #expect(inURL.status == 64, "\(inURL)")
            #expect(!"\(inURL)".contains("hidden"))
        }
    }
}
