import Foundation
import GRDB
import Testing

extension CommandTests {
    @Suite("The command merges the edits of several devices", .serialized)
    struct SyncTests {
        private static let schema = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER NOT NULL DEFAULT 0);
            INSERT INTO note (title) VALUES ('milk'), ('bread')
            """

        private func execute(_ sql: String, _ device: Device) throws {
            let queue = try DatabaseQueue(path: device.store.path)
            defer { try? queue.close() }
            try queue.write { try $0.execute(sql: sql) }
        }

        private func titles(_ device: Device) throws -> Set<String> {
            let queue = try DatabaseQueue(path: device.store.path)
            defer { try? queue.close() }
            return try queue.read { try Set(String.fetchAll($0, sql: "SELECT title FROM note")) }
        }

        private func sync(_ device: Device, _ arguments: String...) async throws -> CommandResult {
            try await device.fixture.run(
                ["sync", device.store.path, "--document", "notes", "--no-encrypt"] + arguments + device.options + [
                    "--json"
                ]
            )
        }

        /// A laptop and a desktop that have synchronized.
        private func devices(_ fixture: Fixture) async throws -> (laptop: Device, desktop: Device) {
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try execute(Self.schema, laptop)
            #expect(try await sync(laptop).status == 0)
            #expect(try await sync(desktop).status == 0)
            return (laptop, desktop)
        }

        @Test("The first synchronization of each device says which way the store travelled")
        func transfers() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try execute(Self.schema, laptop)
            func text(_ device: Device) async throws -> String {
                let command = ["sync", device.store.path, "--document", "notes", "--no-encrypt"]
                return try await fixture.run(command + device.options).output
            }
            #expect(try await text(laptop) == "Synchronized notes: uploaded store.sqlite.\n")
            #expect(try await text(desktop) == "Synchronized notes: downloaded store.sqlite.\n")
            try execute("INSERT INTO note (title) VALUES ('eggs')", desktop)
            #expect(try await text(desktop) == "Synchronized notes: published 1 edit.\n")
            let other = try fixture.device("other")
            let object = try await sync(other).json()
            #expect(object["transfer"]?.string == "downloaded" && object["warnings"] == nil)
            #expect(try await sync(other).json()["transfer"] == nil)
            #expect(try await text(laptop).contains("note: 1 inserted"))
            let conflicts = try await fixture.run(["conflicts", laptop.store.path] + laptop.options)
            #expect(conflicts.output == "Merging has overwritten nothing.\n")
            let conflicting = ["conflicts", laptop.store.path, "--json", "--document"]
            #expect(try await fixture.run(conflicting + ["notes"] + laptop.options).json()["conflicts"] == .array([]))
            try expectFailure(try await fixture.run(conflicting + ["other"] + laptop.options), 66, "storeNotFound")
            try expectFailure(try await fixture.run(conflicting + ["."] + laptop.options), 64, "invalidIdentifier")
            let check = try await fixture.run(["check", desktop.store.path]).output
            #expect(!check.contains("grdb_storesync"), "\(check)")
        }

        @Test("`status` says how far each client is that merges records")
        func status() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            for number in 0..<2 {
                try execute("INSERT INTO note (title) VALUES ('note \(number)')", laptop)
                #expect(try await sync(laptop).status == 0)
            }
            let status = try await desktop.run("status").json()
            let clients = try #require(status["documents"]?.array?.first?["synchronizing"]?.array)
            #expect(clients.compactMap { $0["sequence"]?.number }.sorted() == [0, 2])
            #expect(clients.compactMap { $0["behind"]?.number }.sorted() == [0, 2])
            let keys: Set = ["client", "sequence", "behind", "published", "logBytes", "removed", "silent"]
            #expect(clients.allSatisfy { $0.keys == keys && $0["silent"] == .boolean(false) })
            let text = try await fixture.run(["status"] + laptop.options).output
            #expect(text.contains("2 change sets, last"), "\(text)")
            #expect(text.contains("0 change sets, last"), "\(text)")
            #expect(text.contains("hasn't confirmed 2 of other clients"), "\(text)")
        }

        @Test("`vacuum` shortens the log, and a device that joins begins with the later store")
        func vacuum() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            for number in 0..<2 {
                try execute("INSERT INTO note (title) VALUES ('note \(number)')", laptop)
                #expect(try await sync(laptop).status == 0)
            }
            let command = ["vacuum", "--document", "notes"] + laptop.options
            let result = try await fixture.run(command + ["--json"]).json()
            let keys: Set = [
                "command", "application", "client", "document", "baseline", "removed", "keptFor", "warnings", "seconds",
            ]
            #expect(result.keys == keys)
            #expect(result["command"]?.string == "vacuum" && result["baseline"]?.number ?? 0 > 0)
            #expect(result["removed"] == .object(["files": .number(0), "bytes": .number(0)]))
            let text = try await fixture.run(command)
            #expect(text.status == 0 && text.output.contains("Removed 0 files of the log"), "\(text)")
            let tablet = try fixture.device("tablet")
            #expect(try await sync(tablet).status == 0)
            #expect(try titles(tablet) == titles(laptop) && titles(laptop).count == 4)
            try FileManager.default.removeItem(at: desktop.store)
            let missing = try await fixture.run(["vacuum", "--document", "notes", "--json"] + desktop.options)
            #expect(try missing.status == 66 && missing.json()["error"]?["code"]?.string == "storeNotFound")
            let unknown = try await fixture.run(["vacuum", "--document", "other", "--json"] + laptop.options)
            #expect(unknown.status == 66, "\(unknown)")
            #expect(try await laptop.run("verify").json()["problems"] == .array([]))
        }

        @Test("`sync` merges the edits of two devices, and reports them in JSON and in text")
        func merging() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            try execute(
                "UPDATE note SET title = 'oat milk' WHERE id = 1; INSERT INTO note (title) VALUES ('eggs')",
                laptop
            )
            try execute("UPDATE note SET done = 1 WHERE id = 1; INSERT INTO note (title) VALUES ('tea')", desktop)
            let first = try await sync(laptop).json()
            let keys: Set = [
                "command", "application", "client", "document", "sequence", "applied", "published", "conflicts",
                "waitingFor", "seconds",
            ]
            #expect(first.keys == keys)
            #expect(first["command"]?.string == "sync" && first["document"]?.string == "notes")
            #expect(first["published"]?["changes"] == .number(2) && first["sequence"] == .number(1))
            let second = try await sync(desktop).json()
            let applied = JSON.object(["inserted": .number(1), "updated": .number(1), "deleted": .number(0)])
            #expect(second["applied"] == .object(["note": applied]))
            #expect(second["conflicts"] == .number(0) && second["waitingFor"] == .array([]))
            let text = try await fixture.run(
                ["sync", laptop.store.path, "--document", "notes", "--no-encrypt"] + laptop.options
            )
            #expect(text.status == 0 && text.output.contains("note: 1 inserted, 1 updated, 0 deleted"), "\(text)")
            #expect(try titles(laptop) == ["oat milk", "bread", "eggs", "tea"])
            #expect(try titles(desktop) == titles(laptop))
            #expect(try await laptop.run("verify").json()["problems"] == .array([]))
        }

        @Test("`conflicts` lists what merging overwrote, and restores it")
        func conflicts() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            try execute("UPDATE note SET title = 'oat milk' WHERE id = 1", laptop)
            try execute("UPDATE note SET title = 'soy milk' WHERE id = 1", desktop)
            #expect(try await sync(laptop).status == 0)
            #expect(try await sync(desktop).json()["conflicts"] == .number(1))
            let state = ["--state", desktop.state.path, "--json"]
            let list = try await fixture.run(["conflicts", desktop.store.path] + state).json()
            let entry = try #require(list["conflicts"]?[0])
            #expect(entry.keys == ["number", "table", "key", "rule", "lost", "kept", "authors", "time", "restored"])
            #expect(entry["restored"]?.boolean == false)
            #expect(entry["table"]?.string == "note" && entry["key"]?.string == "1")
            #expect(entry["lost"]?["title"]?.string == "oat milk" && entry["kept"]?["title"]?.string == "soy milk")
            #expect(entry["authors"]?.array?.count == 2)
            guard case .number(let number)? = entry["number"] else { throw CancellationError() }
            let restore = ["conflicts", desktop.store.path, "--restore", "\(Int(number))"] + state
            let restored = try await fixture.run(restore)
            #expect(restored.status == 0)
            #expect(try restored.json()["conflicts"]?[0]?["restored"]?.boolean == true)
            #expect(try titles(desktop) == ["oat milk", "bread"])
            let lines = try await fixture.run(["conflicts", desktop.store.path, "--state", desktop.state.path])
            #expect(lines.output.contains("(restored)"), "\(lines)")
            #expect(try await sync(desktop).status == 0)
            #expect(try await sync(laptop).status == 0)
            #expect(try titles(laptop) == ["oat milk", "bread"])
            let unknown = ["conflicts", desktop.store.path, "--restore", "999"] + state
            try expectFailure(try await fixture.run(unknown), 66, "conflictNotFound")
        }

        @Test("`conflicts` says which entries lost nothing that could be restored")
        func conflictsThatLostNothing() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try execute("CREATE TABLE word (text TEXT); INSERT INTO word VALUES ('milk')", laptop)
            for device in [laptop, desktop] { #expect(try await sync(device).status == 0) }
            for device in [laptop, desktop] {
                try execute("DELETE FROM word", device)
                #expect(try await sync(device).status == 0)
            }
            let lines = try await fixture.run(["conflicts", desktop.store.path, "--state", desktop.state.path])
            #expect(lines.output.hasSuffix("deleted on two devices (nothing to restore)\n"), "\(lines)")
        }

        @Test("`conflicts` restores a row once on however many devices, and says which row to restore first")
        func restoredRows() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try execute(
                """
                CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO folder VALUES (1, 'home');
                CREATE TABLE note (
                    id INTEGER PRIMARY KEY, title TEXT, folder INTEGER REFERENCES folder ON DELETE CASCADE
                );
                INSERT INTO note VALUES (1, 'milk', 1)
                """,
                laptop
            )
            for device in [laptop, desktop] { #expect(try await sync(device).status == 0) }
            try execute("UPDATE folder SET name = 'work'; UPDATE note SET title = 'oat milk'", laptop)
            try execute("DELETE FROM note; DELETE FROM folder", desktop)
            for device in [laptop, desktop, laptop] { #expect(try await sync(device).status == 0) }
            func restore(_ table: String, _ device: Device) async throws -> CommandResult {
                let conflicts = ["conflicts", device.store.path, "--state", device.state.path, "--json"]
                let entries = try await fixture.run(conflicts).json()["conflicts"]?.array ?? []
                let entry = try #require(entries.first { $0["table"]?.string == table })
                guard case .number(let number)? = entry["number"] else { throw CancellationError() }
                return try await fixture.run(conflicts + ["--restore", "\(Int(number))"])
            }
            let refused = try await restore("note", desktop)
            try expectFailure(refused, 65, "cannotRestore")
            for device in [laptop, desktop] {
                for table in ["folder", "note"] { #expect(try await restore(table, device).status == 0) }
            }
            for device in [laptop, desktop, laptop] { #expect(try await sync(device).status == 0) }
            for device in [laptop, desktop] {
                let queue = try DatabaseQueue(path: device.store.path)
                let titles = try await queue.read { try String.fetchAll($0, sql: "SELECT title FROM note") }
                #expect(titles == ["oat milk"])
            }
        }

        @Test("`conflicts` tells bytes from text in JSON")
        func bytesInConflicts() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            try execute("UPDATE note SET title = x'010203' WHERE id = 1", laptop)
            try execute("UPDATE note SET title = 'AQID' WHERE id = 1", desktop)
            for device in [laptop, desktop] { #expect(try await sync(device).status == 0) }
            let arguments = ["conflicts", desktop.store.path, "--state", desktop.state.path, "--json"]
            let entry = try #require(try await fixture.run(arguments).json()["conflicts"]?[0])
            #expect(entry["lost"]?["title"] == .object(["blob": .string("AQID")]))
            #expect(entry["kept"]?["title"] == .string("AQID"))
        }

        @Test("`conflicts` has whole keys in JSON, and abbreviates long ones in text")
        func longKeysInConflicts() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let start = String(repeating: "a", count: 70)
            try execute(
                """
                CREATE TABLE page (path TEXT PRIMARY KEY NOT NULL, title TEXT);
                INSERT INTO page VALUES ('\(start)1', 'milk'), ('\(start)2', 'bread')
                """,
                laptop
            )
            for device in [laptop, desktop] { #expect(try await sync(device).status == 0) }
            for (device, kind) in [(laptop, "oat"), (desktop, "soy")] {
                try execute("UPDATE page SET title = '\(kind) ' || title", device)
                #expect(try await sync(device).status == 0)
            }
            let command = ["conflicts", desktop.store.path, "--state", desktop.state.path]
            let entries = try #require(try await fixture.run(command + ["--json"]).json()["conflicts"]?.array)
            #expect(Set(entries.compactMap { $0["key"]?.string }) == ["('\(start)1')", "('\(start)2')"])
            let text = try await fixture.run(command).output
            #expect(text.contains("page ('\(start.prefix(58))…: overwritten") && !text.contains(start), "\(text)")
        }

        @Test("A push of a synchronizing document, an unrelated store, a copy and a mass deletion fail with 65")
        func refusals() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            try expectFailure(try await laptop.push(), 65, "documentSynchronizes")
            try expectFailure(try await desktop.pull("--overwrite"), 65, "documentSynchronizes")
            let stranger = try fixture.device("stranger")
            try execute("\(Self.schema); INSERT INTO note (title) VALUES ('of a stranger')", stranger)
            try expectFailure(try await sync(stranger), 65, "unrelatedStore")
            let copy = try Data(contentsOf: desktop.store)
            try execute("UPDATE note SET done = 1", desktop)
            #expect(try await sync(desktop).status == 0)
            try copy.write(to: desktop.store)
            try expectFailure(try await sync(desktop), 65, "storeReplaced")
            try execute(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
                INSERT INTO note (title) SELECT 'note ' || i FROM n
                """,
                laptop
            )
            #expect(try await sync(laptop).status == 0)
            try execute("DELETE FROM note WHERE id > 10", laptop)
            try expectFailure(try await sync(laptop), 65, "massDeletion")
            let allowed = try await sync(laptop, "--allow-deletions").json()
            #expect(allowed["published"]?["changes"] == .number(192))
            try expectFailure(try await fixture.run(["sync", "missing.sqlite", "--json"]), 64, "usage")
        }

        @Test("`sync --take` takes the side that is named, and refuses other names")
        func taking() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            let stranger = try fixture.device("stranger")
            try execute(
                "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, done INTEGER NOT NULL DEFAULT 0)",
                stranger
            )
            try execute("INSERT INTO note (title) VALUES ('eggs'), ('milk')", stranger)
            try expectFailure(try await sync(stranger, "--take", "neither"), 64, "usage")
            #expect(try await sync(stranger, "--take", "both").status == 0)
            #expect(try titles(stranger) == ["milk", "bread", "eggs"])
            #expect(try await sync(laptop).status == 0)
            #expect(try titles(laptop) == ["milk", "bread", "eggs"])
            let backup = try Data(contentsOf: desktop.store)
            #expect(try await sync(desktop).status == 0)
            try backup.write(to: desktop.store)
            let text = try await fixture.run(
                ["sync", desktop.store.path, "--document", "notes", "--no-encrypt", "--take", "remote"]
                    + desktop.options
            )
            #expect(text.status == 0 && text.errorOutput.contains(".aside-"), "\(text)")
            #expect(try titles(desktop) == ["milk", "bread", "eggs"])
        }

        @Test("Before a pushed document's first synchronization, `--take both` is 75, and isn't asked for again")
        func takingEarly() async throws {
            let fixture = try Fixture()
            let (laptop, stranger) = (try fixture.device("laptop"), try fixture.device("stranger"))
            for device in [laptop, stranger] { try execute(Self.schema, device) }
            try execute("INSERT INTO note (title) VALUES ('eggs')", stranger)
            #expect(try await laptop.push().status == 0)
            let early = try await sync(stranger, "--take", "both")
            try expectFailure(early, 75, "busy")
            let message = try early.errorMessage()
            #expect(message.contains("synchronize first on the device that has pushed"), "\(message)")
            #expect(!message.contains("--take"), "\(message)")
            // As the error says.
            #expect(try await sync(laptop).status == 0)
            #expect(try await sync(stranger, "--take", "both").status == 0)
        }

        @Test("`sync --dry-run` changes nothing, even on an unregistered device; `--rebuild` keeps everything")
        func previewAndRebuilding() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            let stranger = try fixture.device("stranger")
            try execute(Self.schema, stranger)
            let former = try await laptop.run("list", "clients").json()
            try expectFailure(try await sync(stranger, "--dry-run"), 66, "noUploadedStore")
            #expect(try await laptop.run("list", "clients").json() == former)
            try execute("UPDATE note SET title = 'oat milk' WHERE id = 1", laptop)
            let preview = try await sync(laptop, "--dry-run").json()
            #expect(preview["published"]?["changes"] == .number(1))
            #expect(try await sync(desktop).json()["applied"] == .object([:]))
            try expectFailure(try await sync(laptop, "--dry-run", "--rebuild"), 64, "usage")
            #expect(try await sync(laptop, "--rebuild").json()["published"]?["changes"] == .number(1))
            #expect(try await sync(desktop).status == 0)
            #expect(try titles(desktop) == ["oat milk", "bread"])
        }

        @Test("`verify` reads the files of large edits; a mistyped path names the store that synchronizes")
        func largeEditAndOtherPath() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try execute(Self.schema, laptop)
            #expect(try await sync(laptop).status == 0)
            // More than what other small files may have.
            try execute("ALTER TABLE note ADD COLUMN body; UPDATE note SET body = randomblob(3000000)", laptop)
            #expect(try await sync(laptop).status == 0)
            let verified = try await laptop.run("verify")
            #expect(verified.status == 0, "\(verified)")
            let other = laptop.home.appending(path: "stor.sqlite").path
            for options in [[], ["--take", "remote"]] {
                let arguments = ["sync", other, "--document", "notes", "--no-encrypt", "--json"] + options
                let result = try await fixture.run(arguments + laptop.options)
                try expectFailure(result, 66, "storeNotFound")
                #expect(try result.errorMessage().contains("synchronizes notes with \(laptop.store.path)"))
            }
        }

        @Test("A preview says what would happen, and a synchronization which command lists the conflicts")
        func conflictHints() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = try await devices(fixture)
            for device in [laptop, desktop] {
                try execute("UPDATE note SET title = '\(device.home.lastPathComponent)' WHERE id = 1", device)
            }
            #expect(try await sync(laptop).status == 0)
            let command = ["sync", desktop.store.path, "--document", "notes"] + desktop.options
            let preview = try await fixture.run(command + ["--dry-run"]).output
            #expect(preview.contains("Merging would overwrite or leave out 1 edit."), "\(preview)")
            let merged = try await fixture.run(command).output
            #expect(merged.contains("storesync conflicts \(desktop.store.path) lists them"), "\(merged)")
        }

        @Test("`sync --rules` leaves out tables, and names a misspelt rule")
        func rules() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try execute(Self.schema, laptop)
            try execute("CREATE TABLE cache (id INTEGER PRIMARY KEY)", laptop)
            let file = fixture.folder.appending(path: "rules.json")
            try Data(#"{"excludeTables": ["cache"]}"#.utf8).write(to: file)
            try expectFailure(try await sync(laptop, "--rules", file.path), 64, "usage")
            try Data(#"{"excludedTables": ["cash"]}"#.utf8).write(to: file)
            try expectFailure(try await sync(laptop, "--rules", file.path), 64, "invalidRules")
            try Data(#"{"excludedTables": ["cache"]}"#.utf8).write(to: file)
            #expect(try await sync(laptop, "--rules", file.path).status == 0)
            #expect(try await sync(desktop).status == 0)
            try execute("INSERT INTO cache VALUES (1); INSERT INTO note (title) VALUES ('tea')", laptop)
            #expect(try await sync(laptop).json()["published"]?["changes"] == .number(1))
            #expect(try await sync(desktop).status == 0)
            #expect(try titles(desktop) == ["milk", "bread", "tea"])
            try Data(#"{"excludedTables": ["note"]}"#.utf8).write(to: file)
            for preview in [[], ["--dry-run"]] {
                let result = try await fixture.run(
                    ["sync", laptop.store.path, "--document", "notes", "--json", "--rules", file.path] + preview
                        + laptop.options
                )
                try expectFailure(result, 65, "documentSynchronizes")
            }
        }
    }
}
