import Foundation
import GRDB
import Testing

extension CommandTests {
    @Suite("Check says what synchronizes record by record", .serialized)
    struct CheckTests {
        private func store(_ sql: String, in fixture: Fixture) throws -> URL {
            let url = fixture.folder.appending(path: "app.sqlite")
            let queue = try DatabaseQueue(path: url.path)
            try queue.write { try $0.execute(sql: sql) }
            try queue.close()
            return url
        }

        /// Creates a store in WAL mode.
        private func openLogged(_ url: URL) throws -> DatabaseQueue {
            let queue = try DatabaseQueue(path: url.path)
            try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = wal; \(Self.schema)") }
            return queue
        }

        private static let schema = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL);
            CREATE TABLE line (text TEXT);
            CREATE VIEW titles AS SELECT title FROM note;
            """

        @Test("Each table is listed with its key, whether it synchronizes, and why not; nothing is written")
        func tables() async throws {
            let fixture = try Fixture()
            let url = try store(Self.schema, in: fixture)
            let before = try Listing(of: fixture.folder)
            let check = try await fixture.run(["check", url.path, "--json"])
            #expect(check.status == 0, "\(check)")
            let object = try check.json()
            #expect(object.keys == ["command", "tables"])
            let tables = try #require(object["tables"]?.array)
            #expect(tables.map { $0["table"]?.string } == ["line", "note", "tag", "titles"])
            #expect(tables.map { $0["key"]?.string } == [nil, "id", "name", nil])
            #expect(tables.map { $0["synchronizes"]?.boolean } == [true, true, true, false])
            for table in tables { #expect(table.keys == ["table", "key", "synchronizes", "reason", "questions"]) }
            #expect(tables[3]["reason"]?.string?.contains("view") == true)
            #expect(tables[0]["questions"]?.array?.count == 1)
            #expect(try Listing(of: fixture.folder).paths == before.paths)
            let lines = try await fixture.run(["check", url.path])
            #expect(lines.output.contains("✓ note: by id, which every device numbers by itself"), "\(lines)")
            #expect(lines.output.contains("✗ titles: "), "\(lines)")
        }

        @Test("An empty file and a database without tables are called an empty database", arguments: ["", "VACUUM"])
        func emptyDatabase(sql: String) async throws {
            let fixture = try Fixture()
            let url = fixture.folder.appending(path: "empty.sqlite")
            try Data().write(to: url)
            if !sql.isEmpty {
                let queue = try DatabaseQueue(path: url.path)
                try await queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 1; \(sql)") }
                try queue.close()
            }
            let size = try Data(contentsOf: url).count
            let check = try await fixture.run(["check", url.path])
            #expect(check.status == 0 && check.output.contains("is an empty database"), "\(check)")
            #expect(check.output.contains("nothing to synchronize"), "\(check)")
            #expect(try await fixture.run(["check", url.path, "--json"]).json()["tables"] == .array([]))
            #expect(try Data(contentsOf: url).count == size)
        }

        @Test("Rules from a file are followed; a misspelt rule is refused with the ones that exist")
        func rules() async throws {
            let fixture = try Fixture()
            let url = try store(Self.schema, in: fixture)
            let rules = fixture.folder.appending(path: "rules.json")
            try Data(#"{"excludedTables": ["line"]}"#.utf8).write(to: rules)
            let check = try await fixture.run(["check", url.path, "--json", "--rules", rules.path]).json()
            #expect(check["tables"]?.array?.first?["synchronizes"]?.boolean == false)
            try Data(#"{"excluded": ["line"]}"#.utf8).write(to: rules)
            let refused = try await fixture.run(["check", url.path, "--json", "--rules", rules.path])
            #expect(refused.status == 64)
            #expect(try refused.errorCode() == "usage")
            #expect(try refused.errorMessage().contains("excludedTables"))
            try Data(#"{"excludedTables": ["lines"]}"#.utf8).write(to: rules)
            let unknown = try await fixture.run(["check", url.path, "--json", "--rules", rules.path])
            try expectFailure(unknown, 64, "invalidRules")
            #expect(try unknown.errorMessage().contains("a table “lines”"))
        }

        @Test("A store is reported as the article on schemas says, without rules and with its rules")
        func article() async throws {
            let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent()
            let text = try String(
                contentsOf: root.appending(path: "Sources/StoreSync/StoreSync.docc/PreparingYourSchema.md"),
                encoding: .utf8
            )
            /// The blocks of a language.
            func blocks(_ language: String) -> [String] {
                text.components(separatedBy: "```\(language)\n").dropFirst().map {
                    $0.components(separatedBy: "```")[0]
                }
            }
            let fixture = try Fixture()
            let url = try store(try #require(blocks("sql").first), in: fixture)
            let rules = fixture.folder.appending(path: "rules.json")
            try Data(try #require(blocks("json").first).utf8).write(to: rules)
            let plain = try await fixture.run(["check", url.path]).output
            let ruled = try await fixture.run(["check", url.path, "--rules", rules.path]).output
            let command = "$ storesync check music.sqlite"
            #expect(blocks("console") == ["\(command)\n\(plain)", "\(command) --rules rules.json\n\(ruled)"])
        }

        @Test("A store that is missing is 66; so is a file that isn't a database")
        func missing() async throws {
            let fixture = try Fixture()
            let missing = try await fixture.run(["check", fixture.folder.appending(path: "no.sqlite").path, "--json"])
            #expect(missing.status == 66)
            #expect(try missing.errorCode() == "storeNotFound")
            let noise = fixture.folder.appending(path: "noise")
            // SQLite takes any file of less than 512 bytes for an empty database.
            for count in [1, 511, 5_000] {
                try Data(repeating: 7, count: count).write(to: noise)
                let refused = try await fixture.run(["check", noise.path, "--json"])
                try expectFailure(refused, 66, "storeNotFound")
                #expect(try refused.errorMessage().hasPrefix("\(noise.path) isn't an SQLite database"), "\(refused)")
            }
        }

        @Test("A directory is 66, and the error names it", arguments: ["check", "conflicts"])
        func directory(command: String) async throws {
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let state = command == "check" ? [] : ["--state", device.state.path]
            let result = try await fixture.run([command, device.home.path, "--json"] + state)
            try expectFailure(result, 66, "storeNotFound")
            #expect(try result.errorMessage().contains("\(device.home.path) is a directory"))
        }

        @Test("A pipe and a device are 66, and nothing waits for them")
        func pipe() async throws {
            let fixture = try Fixture()
            let pipe = fixture.folder.appending(path: "pipe").path
            #expect(mkfifo(pipe, 0o600) == 0)
            for path in [pipe, "/dev/null"] {
                let result = try await fixture.run(["check", path, "--json"])
                try expectFailure(result, 66, "storeNotFound")
                #expect(try result.errorMessage().contains("\(path) is a device, a pipe"))
            }
        }

        @Test("A store in WAL mode is checked without a file beside it, at rest and while another program has it open")
        func writeAheadLog() async throws {
            let fixture = try Fixture()
            let url = fixture.folder.appending(path: "a store %41?.sqlite")
            let queue = try openLogged(url)
            let open = try await fixture.run(["check", url.path])
            #expect(open.output.contains("✓ note"), "\(open)")
            try queue.close()
            let before = try Listing(of: fixture.folder)
            let rest = try await fixture.run(["check", url.path])
            #expect(rest.output == open.output)
            #expect(try Listing(of: fixture.folder) == before)
        }

        @Test("A store in WAL mode is checked in a read-only directory", .enabled(if: Mount.isPossible))
        func readOnly() async throws {
            let fixture = try Fixture()
            let mount = try await Mount(at: fixture.share, options: "size=1m")
            let url = fixture.share.appending(path: "app.sqlite")
            try openLogged(url).close()
            try await mount.remount("ro")
            let check = try await fixture.run(["check", url.path])
            #expect(check.status == 0, "\(check)")
            #expect(check.output.contains("✓ note"))
            try await mount.unmount()
        }
    }
}
