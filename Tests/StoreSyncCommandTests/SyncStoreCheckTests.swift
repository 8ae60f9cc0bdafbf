import Foundation
import GRDB
import Testing

extension CommandTests {
    @Suite("A store is checked before a synchronization creates anything for it", .serialized)
    struct SyncStoreCheckTests {
        private func sync(_ device: Device, _ store: URL? = nil, _ arguments: String...) async throws -> CommandResult {
            let path = (store ?? device.store).path
            return try await device.fixture.run(
                ["sync", path, "--document", "notes", "--no-encrypt", "--json"] + device.options + arguments
            )
        }

        /// A database with a damaged page in its table.
        private func damage(_ device: Device) throws {
            try device.write("one", bytes: 100)
            for _ in 1...200 { try device.write("another", bytes: 100) }
            let handle = try FileHandle(forUpdating: device.store)
            defer { try? handle.close() }
            try handle.seek(toOffset: 2 * 4096)
            try handle.write(contentsOf: Data(repeating: 0xA5, count: 4096))
        }

        @Test("What isn't a database, a damaged one, a directory and a missing store fail, and nothing is created")
        func refused() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let text = device.home.appending(path: "text.txt")
            try Data("hi\n".utf8).write(to: text)
            try damage(device)
            let missing = device.home.appending(path: "missing.sqlite")
            let coreData = device.home.appending(path: "coredata.sqlite")
            let database = try DatabaseQueue(path: coreData.path)
            try await database.write { db in
                try db.execute(sql: "CREATE TABLE Z_METADATA (Z_UUID TEXT); CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER)")
            }
            try database.close()
            for (store, status, code) in [
                (text, 66, "storeNotFound"), (device.store, 65, "corrupt"), (device.home, 66, "storeNotFound"),
                (missing, 66, "storeNotFound"), (coreData, 65, "unsupportedFormat"),
            ] {
                let result = try await sync(device, store)
                try expectFailure(result, Int32(status), code)
                #expect(try result.errorMessage().contains(store.path), "\(result)")
                #expect(try Listing(of: fixture.share).isEmpty)
            }
        }

        @Test(
            "A store that can't be written isn't synchronized, and nothing is created",
            .enabled(if: Mount.isPossible)
        )
        func readOnly() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let disk = device.home.appending(path: "disk", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: disk, withIntermediateDirectories: false)
            let mount = try await Mount(at: disk, options: "size=1m")
            let store = disk.appending(path: "store.sqlite")
            try device.write("one")
            try FileManager.default.copyItem(at: device.store, to: store)
            try await mount.remount("ro")
            let result = try await sync(device, store)
            try expectFailure(result, 73, "cannotWrite")
            #expect(try result.errorMessage().contains(disk.path), "\(result)")
            #expect(try Listing(of: fixture.share).isEmpty)
            try await mount.unmount()
        }

        @Test("A store whose schema needs a newer SQLite is pushed and pulled, and its records aren't synchronized")
        func laterSyntax() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let database = try DatabaseQueue(path: laptop.store.path)
            try await database.writeWithoutTransaction { db in
                try db.execute(sql: "CREATE VIEW later AS SELECT 1; PRAGMA writable_schema = ON")
                try db.execute(sql: "UPDATE sqlite_schema SET sql = sql || ' OF LATER' WHERE name = 'later'")
            }
            try database.close()
            let result = try await sync(laptop)
            try expectFailure(result, 65, "unsupportedFormat")
            #expect(try result.errorMessage().contains("newer SQLite"), "\(result)")
            #expect(try Listing(of: fixture.share).isEmpty)
            #expect(try await laptop.push().status == 0)
            #expect(try await desktop.pull().status == 0)
            #expect(try await desktop.pull("--overwrite").status == 0)
            #expect(try await desktop.push().json()["unchanged"]?.boolean == true)
        }

        @Test("An empty file is an empty database, as check says too; without it, the document's store is downloaded")
        func empty() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            #expect(try await sync(laptop).status == 0)
            try Data().write(to: desktop.store)
            let result = try await sync(desktop)
            try expectFailure(result, 66, "storeNotFound")
            #expect(try result.errorMessage().contains("is an empty database"), "\(result)")
            #expect(try result.errorMessage().contains("remove this file"), "\(result)")
            // The second time, the device has synchronized its store before.
            for _ in 1...2 {
                try Data().write(to: desktop.store)
                try expectFailure(await sync(desktop), 66, "storeNotFound")
                try FileManager.default.removeItem(at: desktop.store)
                #expect(try await sync(desktop, nil, "--take", "remote").status == 0)
                #expect(try desktop.notes() == ["one"])
            }
        }

        @Test("An emptied store isn't taken for the store of an app without tables, even if the replica is lost")
        func emptied() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            #expect(try await sync(laptop).status == 0)
            #expect(try await sync(desktop).status == 0)
            try FileManager.default.removeItem(at: desktop.state.appending(path: "replicas"))
            let handle = try FileHandle(forWritingTo: desktop.store)
            try handle.truncate(atOffset: 0)
            try handle.close()
            try expectFailure(try await sync(desktop), 66, "storeNotFound")
            for side in ["remote", "local", "both"] {
                try expectFailure(try await sync(desktop, nil, "--take", side), 66, "storeNotFound")
            }
            try FileManager.default.removeItem(at: desktop.store)
            #expect(try await sync(desktop).status == 0)
            #expect(try desktop.notes() == ["one"])
        }

        @Test("A path below a file, or in a missing directory, is 66, and the error says what to check")
        func paths() async throws {
            let device = try Fixture().device("laptop")
            try device.write("one")
            for (path, words) in [
                ("store.sqlite/x", "is a file, not a directory"), ("missing/x", "create the directory"),
            ] {
                let result = try await sync(device, device.home.appending(path: path))
                try expectFailure(result, 66, "storeNotFound")
                #expect(try result.errorMessage().contains(words), "\(result)")
            }
        }

        @Test("In an application without the document, no document is created for a store that doesn't exist")
        func missing() async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            #expect(try await device.run("register", "--no-encrypt").status == 0)
            let before = try Listing(of: fixture.share)
            let result = try await sync(device)
            try expectFailure(result, 66, "storeNotFound")
            #expect(try result.errorMessage().contains(device.store.path))
            #expect(try Listing(of: fixture.share) == before)
        }

        @Test("A refused file doesn't become the store with which devices begin: another one still can")
        func baseline() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            let text = desktop.home.appending(path: "text.txt")
            try Data("hi\n".utf8).write(to: text)
            try expectFailure(try await sync(desktop, text), 66, "storeNotFound")
            try expectFailure(try await sync(desktop), 66, "storeNotFound")
            #expect(try await sync(laptop).status == 0)
            #expect(try await sync(desktop).status == 0)
            #expect(try desktop.notes() == ["one"])
        }
    }
}
