import Foundation
import Testing

extension CommandTests {
    /// Each test tries a full disk at increasing sizes, so that the command gets a little further each time.
    @Suite("A disk that is full at any write", .serialized, .enabled(if: Mount.isPossible))
    struct FullDiskTests {
        private static let password = ["STORESYNC_PASSWORD": "correct horse"]

        private func push(_ device: Device) async throws -> CommandResult {
            try await device.run("push", device.store.path, "--document", "notes", environment: Self.password)
        }

        private func pull(_ device: Device) async throws -> CommandResult {
            try await device.run("pull", device.store.path, "--document", "notes", environment: Self.password)
        }

        private func expectFull(_ result: CommandResult, _ side: String, _ kibibytes: Int) throws {
            #expect(result.status == 73, "with \(kibibytes) KiB: \(result)")
            #expect(try result.errorCode() == "cannotWrite", "with \(kibibytes) KiB")
            #expect(try result.errorMessage().contains(side), "with \(kibibytes) KiB: \(result)")
        }

        /// Enlarges a disk until a command succeeds; returns the number of failures.
        private func grow(
            _ mount: Mount,
            from kibibytes: Int,
            by step: Int = 96,
            _ body: (_ kibibytes: Int) async throws -> Bool
        ) async throws -> Int {
            for count in 0..<200 {
                let size = kibibytes + count * step
                try await mount.remount("size=\(size)k")
                if try await body(size) { return count }
            }
            Issue.record("the command never succeeded")
            return 0
        }

        /// The used space of a disk, in kibibytes.
        private func used(_ directory: URL) throws -> Int {
            var status = statvfs()
            try #require(statvfs(directory.path, &status) == 0)
            return Int(status.f_blocks - status.f_bfree) * Int(status.f_frsize) / 1024
        }

        /// Two devices of an encrypted application.
        private func devices(in fixture: Fixture) async throws -> (Device, Device) {
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            for (device, arguments) in [
                (laptop, ["register", "--encrypt", "--password-memory", "64"]), (desktop, ["register"]),
            ] {
                let result = try await fixture.run(
                    arguments + device.options + ["--json"],
                    environment: Self.password
                )
                #expect(result.status == 0, "\(result)")
            }
            return (laptop, desktop)
        }

        @Test("A full disk at the remote publishes nothing before all files are stored; the former generation stays")
        func remote() async throws {
            let fixture = try Fixture()
            let mount = try await Mount(at: fixture.share, options: "size=20m")
            let (laptop, desktop) = try await devices(in: fixture)
            try laptop.write("one")
            #expect(try await push(laptop).status == 0)
            #expect(try await pull(desktop).status == 0)
            let manifests = try fixture.manifests()
            try laptop.write("two", bytes: 1_500_000)
            let before = try Listing(of: laptop.home).withoutState
            let failures = try await grow(mount, from: used(fixture.share)) { size in
                let result = try await push(laptop)
                if result.status == 0 { return true }
                try expectFull(result, "on the remote", size)
                #expect(try fixture.manifests() == manifests)
                #expect(try Listing(of: laptop.home).withoutState == before)
                #expect(try await pull(desktop).status == 0)
                #expect(try desktop.notes() == ["one"])
                return false
            }
            print("the remote was full \(failures) times")
            #expect(failures > 5)
            #expect(try await pull(desktop).status == 0)
            #expect(try desktop.notes() == ["one", "two"])
            let verify = try await laptop.run("verify", environment: Self.password)
            #expect(try verify.status == 0 && verify.json()["warnings"] == .array([]), "\(verify)")
            try await mount.unmount()
        }

        @Test("A full disk at a pulling device leaves its store unchanged until it's replaced as a whole")
        func pulling() async throws {
            let fixture = try Fixture()
            let (laptop, _) = try await devices(in: fixture)
            try laptop.write("one")
            #expect(try await push(laptop).status == 0)
            // State and store on the small disk.
            let desktop = try fixture.device("small")
            let mount = try await Mount(at: desktop.home, options: "size=20m")
            let registered = try await desktop.run("register", environment: Self.password)
            #expect(registered.status == 0, "\(registered)")
            #expect(try await pull(desktop).status == 0)
            try laptop.write("two", bytes: 1_500_000)
            #expect(try await push(laptop).status == 0)
            let share = try Listing(of: fixture.share)
            let before = try Data(contentsOf: desktop.store)
            let failures = try await grow(mount, from: used(mount.directory)) { size in
                let result = try await pull(desktop)
                if result.status == 0 { return true }
                try expectFull(result, "on this device", size)
                #expect(try Data(contentsOf: desktop.store) == before)
                #expect(try Listing(of: fixture.share) == share)
                return false
            }
            print("a pulling device was full \(failures) times")
            #expect(failures > 5)
            #expect(try desktop.notes() == ["one", "two"])
            try await mount.unmount()
        }

        @Test("A full disk at a pushing device publishes nothing before it's recorded, and changes no store")
        func pushing() async throws {
            let fixture = try Fixture()
            let (_, desktop) = try await devices(in: fixture)
            let small = try fixture.device("small")
            let mount = try await Mount(at: small.home, options: "size=20m")
            let registered = try await small.run("register", environment: Self.password)
            #expect(registered.status == 0, "\(registered)")
            try small.write("one")
            #expect(try await push(small).status == 0)
            try small.write("two", bytes: 1_500_000)
            let manifests = try fixture.manifests()
            let before = try Data(contentsOf: small.store)
            let failures = try await grow(mount, from: used(mount.directory), by: 4) { size in
                let result = try await push(small)
                if result.status == 0 { return true }
                try expectFull(result, "on this device", size)
                #expect(try fixture.manifests() == manifests)
                #expect(try Data(contentsOf: small.store) == before)
                return false
            }
            print("a pushing device was full \(failures) times")
            #expect(failures > 2)
            #expect(try await pull(desktop).status == 0)
            #expect(try desktop.notes() == ["one", "two"])
            // Also if there was no space left to record the publication.
            try await mount.remount("size=20m")
            let again = try await push(small)
            #expect(try again.status == 0 && again.json()["unchanged"]?.boolean == true, "\(again)")
            try await mount.unmount()
        }

        @Test("A verification without space for a store says that, and calls no upload damaged")
        func verifying() async throws {
            let fixture = try Fixture()
            let (laptop, _) = try await devices(in: fixture)
            try laptop.write("one", bytes: 1_500_000)
            #expect(try await push(laptop).status == 0)
            try laptop.write("two")
            #expect(try await push(laptop).status == 0)
            let directory = fixture.folder.appending(path: "small")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            let mount = try await Mount(at: directory, options: "size=512k")
            let environment = Self.password.merging(["TMPDIR": directory.path]) { $1 }
            let verify = try await laptop.run("verify", environment: environment)
            try expectFull(verify, "on this device", 512)
            try await mount.unmount()
            try laptop.write("three")
            let third = try await push(laptop)
            #expect(
                try #require(third.json()["storedBytes"]?.number) < 100_000,
                "it builds on the intact upload: \(third)"
            )
            #expect(try await laptop.run("verify", environment: Self.password).status == 0)
        }
    }
}
