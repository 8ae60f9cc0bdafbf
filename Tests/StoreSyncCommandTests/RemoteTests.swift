import Foundation
import Testing

extension CommandTests {
    @Suite("A remote that can't be used gets a specific error, and both sides stay unchanged", .serialized)
    struct RemoteTests {
        private func expectFailures(_ device: Device, _ status: Int32, _ code: String, _ side: String) async throws {
            let before = try Listing(of: device.fixture.folder).withoutState(of: device)
            for arguments in [device.pushArguments, device.pullArguments, ["register", "--no-encrypt"]] {
                let result = try await device.fixture.run(arguments + device.options + ["--json"])
                #expect(result.status == status, "\(result)")
                #expect(try result.errorCode() == code)
                #expect(try result.errorMessage().contains(side), "\(result)")
                #expect(try Listing(of: device.fixture.folder).withoutState(of: device) == before)
            }
        }

        @Test("A missing folder is an unavailable remote for every command, and isn't created")
        func missing() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            try FileManager.default.removeItem(at: fixture.share)
            try await expectFailures(device, 69, "remoteUnavailable", fixture.share.path)
            for command in ["status", "verify"] {
                let result = try await device.run(command)
                #expect(result.status == 69, "\(result)")
                #expect(try result.errorCode() == "remoteUnavailable")
            }
            #expect(!FileManager.default.fileExists(atPath: fixture.share.path))
        }

        @Test("A file in place of the folder is an unavailable remote for every command, and stays")
        func file() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try device.write("one")
            try FileManager.default.removeItem(at: fixture.share)
            try Data("a file".utf8).write(to: URL(fileURLWithPath: fixture.share.path))
            try await expectFailures(device, 69, "remoteUnavailable", fixture.share.path)
            for command in ["status", "verify"] {
                let result = try await device.run(command)
                #expect(result.status == 69, "\(result)")
                #expect(try result.errorCode() == "remoteUnavailable")
            }
        }

        @Test("A share that vanishes isn't mistaken for an empty share")
        func unmounted() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try await device.push(adding: "one")
            try FileManager.default.moveItem(at: fixture.share, to: fixture.folder.appending(path: "unplugged"))
            try FileManager.default.createDirectory(at: fixture.share, withIntermediateDirectories: false)
            try device.write("two")
            let push = try await device.push()
            #expect(push.status == 66, "\(push)")
            #expect(try push.errorCode() == "applicationMissing")
            #expect(try push.errorMessage().contains("register --again"))
            #expect(try Listing(of: fixture.share).isEmpty)
        }

        @Test("After an application is lost, the device can be set up again as the message says")
        func again() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let before = try await laptop.push().json()
            try FileManager.default.removeItem(at: fixture.share.appending(path: "org.example.notes"))
            for arguments in [laptop.pushArguments, laptop.pullArguments, ["register", "--no-encrypt"]] {
                let result = try await fixture.run(arguments + laptop.options + ["--json"])
                #expect(result.status == 66, "\(result)")
                #expect(try result.errorCode() == "applicationMissing")
                #expect(try result.errorMessage().contains("register --again"))
            }
            let registered = try await laptop.run("register", "--again", "--no-encrypt")
            #expect(registered.status == 0, "\(registered)")
            #expect(try registered.json()["created"]?.boolean == true)
            #expect(try registered.json()["client"] != before["client"])
            // The store belongs to the lost application, so pushing it has to be intended.
            let refused = try await laptop.push()
            #expect(refused.status == 65, "\(refused)")
            #expect(try refused.errorCode() == "documentReplaced")
            #expect(try refused.errorMessage().contains("push or synchronize the copy"))
            let copy = laptop.home.appending(path: "copy.sqlite")
            try FileManager.default.copyItem(at: laptop.store, to: copy)
            let push = try await laptop.run("push", copy.path, "--document", "notes")
            #expect(push.status == 0, "\(push)")
            #expect(try push.json()["client"] == registered.json()["client"])
            #expect(try await desktop.pull().status == 0)
            #expect(try desktop.notes() == ["one"])
        }

        @Test("A device that is still registered isn't set up again, and needs no password")
        func stillRegistered() async throws {
            let laptop = try Fixture().device("laptop")
            let password = ["STORESYNC_PASSWORD": "correct horse"]
            let first = try await laptop.run("register", environment: password)
            #expect(first.status == 0, "\(first)")
            for environment in [[:], ["STORESYNC_PASSWORD": "wrong"]] {
                let again = try await laptop.run("register", "--again", environment: environment)
                #expect(again.status == 0, "\(again)")
                #expect(try again.json()["client"] == first.json()["client"])
                #expect(again.errorOutput.contains("still registered"))
            }
            try laptop.write("one")
            #expect(try await laptop.run("push", laptop.store.path, "--document", "notes").status == 0)
        }

        @Test("On a read-only folder, a write fails with cannotWrite", .enabled(if: Mount.isPossible))
        func readOnly() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let mount = try await Mount(at: fixture.share, options: "ro,size=1m")
            // Without an application, pull has nothing to write.
            let before = try Listing(of: fixture.folder).withoutState(of: laptop)
            for arguments in [laptop.pushArguments, ["register", "--no-encrypt"]] {
                let result = try await fixture.run(arguments + laptop.options + ["--json"])
                #expect(result.status == 73, "\(result)")
                #expect(try result.errorCode() == "cannotWrite")
                let message = try result.errorMessage()
                #expect(message.contains("on the remote") && message.contains(fixture.share.path), "\(message)")
                #expect(!message.contains(".registering-"), "\(message)")
                #expect(try Listing(of: fixture.folder).withoutState(of: laptop) == before)
            }
            try await mount.remount("rw")
            #expect(try await laptop.push().status == 0)
            try await mount.remount("ro")
            let pull = try await desktop.pull()
            #expect(pull.status == 73, "\(pull)")
            #expect(try pull.errorCode() == "cannotWrite")
            #expect(try await laptop.run("status").status == 0)
            #expect(try await laptop.run("verify").status == 0)
            // A registered device can pull without writing to the remote.
            try laptop.write("two")
            #expect(try await laptop.pull("--overwrite").status == 0)
            #expect(try laptop.notes() == ["one"])
            try await mount.unmount()
        }

        @Test("On a full folder nothing is published, and the next push works", .enabled(if: Mount.isPossible))
        func full() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let mount = try await Mount(at: fixture.share, options: "size=1m")
            #expect(try await laptop.push().status == 0)
            let manifests = try fixture.manifests()
            try laptop.write("two", bytes: 2_000_000)
            let before = try Listing(of: laptop.home).withoutState
            for _ in 1...2 {
                let push = try await laptop.push()
                #expect(push.status == 73, "\(push)")
                #expect(try push.errorCode() == "cannotWrite")
                #expect(try push.errorMessage().contains("on the remote"))
                #expect(try fixture.manifests() == manifests)
                #expect(try Listing(of: laptop.home).withoutState == before)
                #expect(try Listing(of: fixture.temporary).isEmpty)
            }
            // Other devices find the complete former store.
            #expect(try await desktop.pull().status == 0)
            #expect(try desktop.notes() == ["one"])

            try await mount.remount("size=20m")
            let push = try await laptop.push()
            #expect(push.status == 0, "\(push)")
            #expect(push.errorOutput.isEmpty)
            let verify = try await laptop.run("verify")
            #expect(try verify.json()["warnings"] == .array([]), "\(verify)")
            #expect(try await desktop.pull().status == 0)
            #expect(try desktop.notes() == ["one", "two"])
            try await mount.unmount()
        }

        @Test(
            "If the local disk is full, the store stays unchanged and the error names this device",
            .enabled(if: Mount.isPossible)
        )
        func fullHere() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            #expect(try await desktop.run("register", "--no-encrypt").status == 0)

            let folder = desktop.home.appending(path: "full", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            let mount = try await Mount(at: folder, options: "size=1m")
            let store = folder.appending(path: "store.sqlite").path
            let arguments = ["pull", store, "--document", "notes", "--json"] + desktop.options
            #expect(try await fixture.run(arguments).status == 0)
            try await laptop.push(adding: "two", bytes: 2_000_000)
            let (before, share) = (try Listing(of: folder), try Listing(of: fixture.share))
            let pull = try await fixture.run(arguments)
            #expect(pull.status == 73, "\(pull)")
            #expect(try pull.errorCode() == "cannotWrite")
            #expect(try pull.errorMessage().contains("on this device"))
            #expect(try Listing(of: folder) == before)
            #expect(try Listing(of: fixture.share) == share)

            let temporary = try await Mount(at: fixture.temporary, options: "size=1m")
            // A database with a rollback journal is copied before it's pushed, unless its times tell that it's unchanged.
            try laptop.write("three")
            let push = try await laptop.push()
            #expect(push.status == 73, "\(push)")
            #expect(try push.errorCode() == "cannotWrite")
            #expect(try push.errorMessage().contains("this device"))
            #expect(try Listing(of: fixture.share) == share)
            #expect(try Listing(of: fixture.temporary).isEmpty)
            try await temporary.unmount()
            try await mount.unmount()
        }

        @Test("If the state directory can't be created, the error names this device")
        func state() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            try Data().write(to: device.state)
            let result = try await device.run("register", "--no-encrypt")
            #expect(result.status == 73, "\(result)")
            #expect(try result.errorCode() == "cannotWrite")
            #expect(try result.errorMessage().contains("isn't a directory on this device"))
            #expect(try Listing(of: fixture.share).isEmpty)
        }
    }
}
