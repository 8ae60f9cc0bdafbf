import Foundation
import Testing

extension CommandTests {
    @Suite("A store that can't be pushed gets a specific error and stays unchanged", .serialized)
    struct StoreTests {
        private func expectFailure(
            _ device: Device,
            _ status: Int32,
            _ code: String,
            sourceLocation: SourceLocation = #_sourceLocation
        ) async throws {
            let before = try Listing(of: device.home).withoutState
            let remote = try Listing(of: device.fixture.share)
            let result = try await device.push()
            #expect(result.status == status, "\(result)", sourceLocation: sourceLocation)
            #expect(try Listing(of: device.fixture.share) == remote, sourceLocation: sourceLocation)
            #expect(try result.errorCode() == code, sourceLocation: sourceLocation)
            #expect(try Listing(of: device.home).withoutState == before, sourceLocation: sourceLocation)
            #expect(try device.fixture.manifests().isEmpty, sourceLocation: sourceLocation)
            #expect(try Listing(of: device.fixture.temporary).isEmpty, sourceLocation: sourceLocation)
        }

        @Test("A store that doesn't exist, or whose directory doesn't exist, fails with storeNotFound")
        func missing() async throws {
            let device = try Fixture().device("laptop")
            try await expectFailure(device, 66, "storeNotFound")
            let nowhere = device.home.appending(path: "no/where/store.sqlite").path
            let result = try await device.run("push", nowhere, "--document", "notes", "--no-encrypt")
            #expect(result.status == 66)
            #expect(try result.errorCode() == "storeNotFound")
        }

        @Test("If the temporary directory doesn't exist, the error names it, TMPDIR and the room on its disk")
        func noTemporaryDirectory() async throws {
            let device = try Fixture().device("laptop")
            try device.write("one")
            let missing = device.home.appending(path: "missing").path
            let push = ["push", device.store.path, "--document", "notes", "--no-encrypt"]
            let result = try await device.fixture.run(
                push + device.options + ["--json"],
                environment: ["TMPDIR": missing]
            )
            #expect(result.status == 73, "\(result)")
            #expect(try result.errorCode() == "cannotWrite")
            for part in [missing, "room on its disk", "TMPDIR"] { #expect("\(result)".contains(part), "\(result)") }
        }

        @Test("A directory and a FIFO without a writer fail with storeNotFound")
        func noFile() async throws {
            let device = try Fixture().device("laptop")
            try FileManager.default.createDirectory(at: device.store, withIntermediateDirectories: false)
            try await expectFailure(device, 66, "storeNotFound")
            try FileManager.default.removeItem(at: device.store)
            try #require(mkfifo(device.store.path, 0o600) == 0)
            try await expectFailure(device, 66, "storeNotFound")
        }

        @Test("A path that ends with a slash names a directory, and no command creates a file there")
        func slash() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            let path = desktop.home.appending(path: "new").path + "/"
            for command in ["pull", "sync", "push"] {
                let result = try await desktop.run(command, path, "--document", "notes", "--no-encrypt")
                #expect(result.status == 66, "\(result)")
                #expect(try result.errorCode() == "storeNotFound")
                #expect(try result.errorMessage().contains("\(path) names a directory"), "\(result)")
                #expect(try Listing(of: desktop.home).isEmpty)
            }
            let existing = try await desktop.run("push", laptop.store.path + "/", "--document", "notes", "--no-encrypt")
            #expect(existing.status == 66, "\(existing)")
        }

        @Test("A symbolic link to a missing file or to itself fails with storeNotFound, and the error says which it is")
        func brokenLink() async throws {
            let device = try Fixture().device("laptop")
            try FileManager.default.createSymbolicLink(atPath: device.store.path, withDestinationPath: "nowhere")
            try await expectFailure(device, 66, "storeNotFound")
            try FileManager.default.removeItem(at: device.store)
            try FileManager.default.createSymbolicLink(atPath: device.store.path, withDestinationPath: "store.sqlite")
            try await expectFailure(device, 66, "storeNotFound")
            let message = try await device.push().errorMessage()
            #expect(message.contains(String(cString: strerror(ELOOP))), "\(message)")
        }

        @Test("A file that the user may not read fails with storeNotFound", .enabled(if: geteuid() != 0))
        func unreadable() async throws {
            let device = try Fixture().device("laptop")
            try device.write("one")
            try #require(chmod(device.store.path, 0) == 0)
            let result = try await device.push()
            #expect(result.status == 66, "\(result)")
            #expect(try result.errorCode() == "storeNotFound")
        }

        @Test("An SQLite database with a damaged header fails with corrupt, or is pushed as a plain file")
        func corruptHeader() async throws {
            let device = try Fixture().device("laptop")
            try device.write("one", bytes: 100_000)
            let file = try FileHandle(forWritingTo: device.store)
            // Overwrites the page size, the format's versions and the rest of the header.
            try file.seek(toOffset: 16)
            try file.write(contentsOf: Data(repeating: 0xFF, count: 84))
            try file.close()
            let before = try Listing(of: device.home).withoutState
            let result = try await device.push()
            // SQLite reports either damage or a file that is no database, which is pushed as a plain file.
            if result.status == 0 {
                #expect(try await device.pull().status == 0)
            } else {
                #expect(result.status == 65, "\(result)")
                #expect(try result.errorCode() == "corrupt")
                #expect(try device.fixture.manifests().isEmpty)
            }
            #expect(try Listing(of: device.home).withoutState == before)
        }

        @Test("A truncated SQLite database fails with corrupt")
        func truncated() async throws {
            let device = try Fixture().device("laptop")
            try device.write("one", bytes: 100_000)
            try #require(truncate(device.store.path, 20_000) == 0)
            try await expectFailure(device, 65, "corrupt")
        }

        @Test("An empty file and a file that isn't an SQLite database are valid stores")
        func plainFiles() async throws {
            for content in [Data(), Data("SQLite format 3".utf8), Data("notes".utf8)] {
                let fixture = try Fixture()
                let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
                try content.write(to: laptop.store)
                let push = try await laptop.push()
                #expect(push.status == 0, "\(push)")
                #expect(try push.json()["bytes"]?.number == Double(content.count))
                let pull = try await desktop.pull()
                #expect(pull.status == 0, "\(pull)")
                #expect(try Data(contentsOf: desktop.store) == content)
                #expect(try await laptop.push().json()["unchanged"]?.boolean == true)
            }
        }

        @Test("Push and pull follow a symbolic link, which stays a link")
        func link() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            for device in [laptop, desktop] {
                try FileManager.default.createDirectory(
                    at: device.home.appending(path: "real"),
                    withIntermediateDirectories: false
                )
                try device.write("one")
                try FileManager.default.moveItem(at: device.store, to: device.home.appending(path: "real/notes"))
                try FileManager.default.createSymbolicLink(
                    atPath: device.store.path,
                    withDestinationPath: "real/notes"
                )
            }
            try await laptop.push(adding: "two")
            #expect(try await desktop.pull("--overwrite").status == 0)
            #expect(try desktop.notes() == ["one", "two"])
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: desktop.store.path) == "real/notes")
        }

        @Test("A file that grows while it is copied is refused, or copied as it was at one moment")
        func growing() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let block = String(repeating: "0123456789abcdef", count: 4096)
            try Data(String(repeating: block, count: 100).utf8).write(to: laptop.store)
            let writer = try ChildProcess(
                URL(fileURLWithPath: "/usr/bin/env"),
                [
                    "python3", "-c",
                    """
                    import sys
                    with open(sys.argv[1], 'ab', buffering=0) as file:
                        for _ in range(20000):
                            file.write(b'0123456789abcdef' * 64)
                    """, laptop.store.path,
                ],
                environment: toolEnvironment
            )
            defer { writer.signal(SIGKILL) }
            let push = try await laptop.push()
            writer.signal(SIGKILL)
            _ = await writer.finish()
            if push.status == 0 {
                #expect(try await desktop.pull().status == 0)
                let arrived = try Data(contentsOf: desktop.store)
                #expect(try Data(contentsOf: laptop.store).starts(with: arrived))
                #expect(arrived.count % 16 == 0)
            } else {
                #expect(push.status == 75, "\(push)")
                #expect(try push.errorCode() == "storeChanged")
                #expect(try fixture.manifests().isEmpty)
            }
            #expect(try await laptop.push().status == 0)
            #expect(try await desktop.pull().status == 0)
            #expect(try Data(contentsOf: desktop.store) == Data(contentsOf: laptop.store))
        }
    }

    @Suite("A store that another program has locked is busy", .serialized)
    struct BusyTests {
        /// A process that holds an SQLite lock until its standard input ends.
        private func hold(_ device: Device, _ statement: String) async throws -> ChildProcess {
            let (holds, continuation) = AsyncStream<Void>.makeStream()
            let child = try ChildProcess(
                URL(fileURLWithPath: "/usr/bin/env"),
                [
                    "python3", "-c",
                    """
                    import sqlite3, sys
                    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
                    connection.execute(sys.argv[2])
                    print('holding', file=sys.stderr, flush=True)
                    sys.stdin.readline()
                    connection.execute('ROLLBACK')
                    connection.close()
                    """, device.store.path, statement,
                ],
                environment: toolEnvironment,
                reactions: [ChildProcess.Reaction(text: "holding") { _ in continuation.finish() }]
            )
            for await _ in holds {}
            return child
        }

        @Test("Push and pull fail with busy, change nothing, and work once the store is unlocked")
        func busy() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            #expect(try await desktop.pull().status == 0)
            try laptop.write("two")

            let pushBlocker = try await hold(laptop, "BEGIN EXCLUSIVE")
            let before = try Listing(of: fixture.share)
            let push = try await laptop.push()
            #expect(push.status == 75, "\(push)")
            #expect(try push.errorCode() == "busy")
            #expect(try Listing(of: fixture.share) == before)
            pushBlocker.send("\n")
            #expect(await pushBlocker.finish().status == 0)
            #expect(try await laptop.push().status == 0)

            let pullBlocker = try await hold(desktop, "BEGIN IMMEDIATE")
            let pull = try await desktop.pull()
            #expect(pull.status == 75, "\(pull)")
            #expect(try pull.errorCode() == "busy")
            pullBlocker.send("\n")
            #expect(await pullBlocker.finish().status == 0)
            #expect(try desktop.notes() == ["one"])
            #expect(try await desktop.pull().status == 0)
            #expect(try desktop.notes() == ["one", "two"])
        }
    }
}
