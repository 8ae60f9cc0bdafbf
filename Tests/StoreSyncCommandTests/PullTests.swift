import Foundation
import GRDB
import Testing

extension CommandTests {
    @Suite("Pull replaces a store only if nothing is lost", .serialized)
    struct PullTests {
        @Test("Pull creates neither application nor document, and fails without an uploaded store")
        func createsNothing() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try expectFailure(try await desktop.pull(), 66, "applicationMissing")
            #expect(try Listing(of: fixture.share).isEmpty)
            #expect(try await laptop.run("register", "--no-encrypt").status == 0)
            try expectFailure(try await desktop.pull(), 66, "documentNotFound")
            #expect(try Listing(of: fixture.share).paths.filter { $0.contains("Documents/") }.isEmpty)
            try await laptop.push(adding: "one")
            let client = try #require(try await desktop.run("register").json()["client"]?.string)
            try expectFailure(try await desktop.pull("--from", client), 66, "noUploadedStore")
            try FileManager.default.removeItem(
                at: fixture.share.appending(path: try #require(fixture.manifests().first))
            )
            for path in try Listing(of: fixture.share).paths where path.hasSuffix("/WholeStore.ticdsync") {
                try FileManager.default.removeItem(at: fixture.share.appending(path: path))
            }
            try expectFailure(try await desktop.pull(), 66, "noUploadedStore")
            #expect(!FileManager.default.fileExists(atPath: desktop.store.path))
            #expect(try Listing(of: desktop.home).withoutState.isEmpty)
        }

        @Test("Status and verify register no client and create nothing", arguments: ["status", "verify"])
        func looking(command: String) async throws {
            let fixture = try Fixture()
            let (laptop, stranger) = (try fixture.device("laptop"), try fixture.device("stranger"))
            try expectFailure(try await stranger.run(command), 66, "applicationMissing")
            #expect(try Listing(of: fixture.share).isEmpty)
            try await laptop.push(adding: "one")
            let before = try Listing(of: fixture.share)
            #expect(try await stranger.run(command).status == 0)
            #expect(try await laptop.run(command).status == 0)
            #expect(try Listing(of: fixture.share) == before)
            let status = try await stranger.run("status").json()
            #expect(status["client"] == .null)
            #expect(status["clients"]?.array?.count == 1)
        }

        @Test("A store that this user can't write isn't replaced: a program that is writing to it couldn't be noticed")
        func notWritable() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            let user = try UnprivilegedUser(fixture)
            func run(_ arguments: [String], _ device: Device) async throws -> CommandResult {
                try await user.run(arguments + device.options + ["--json"])
            }
            try laptop.write("one")
            try user.own(laptop.store)
            #expect(try await run(laptop.pushArguments, laptop).status == 0)
            #expect(try await run(desktop.pullArguments, desktop).status == 0)
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let app = try DatabaseQueue(path: desktop.store.path, configuration: configuration)
            try await app.writeWithoutTransaction { db in
                try db.execute(sql: "BEGIN IMMEDIATE; UPDATE note SET title = 'two'")
            }
            try user.forbid(desktop.store)
            try laptop.write("three")
            #expect(try await run(laptop.pushArguments, laptop).status == 0)
            try expectFailure(try await run(desktop.pullArguments, desktop), 73, "cannotWrite")
            try await app.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
            try app.close()
            let queue = try DatabaseQueue(path: desktop.store.path)
            #expect(try await queue.read { try String.fetchAll($0, sql: "SELECT title FROM note") } == ["two"])
        }

        /// A user who may not write every file: the user of this process, unless that is root.
        private struct UnprivilegedUser {
            private let fixture: Fixture
            private let isRoot = geteuid() == 0
            /// A user without rights.
            private let identifier: uid_t = 65534

            init(_ fixture: Fixture) throws {
                self.fixture = fixture
                guard isRoot else { return }
                for url in [fixture.folder]
                    + (FileManager.default.enumerator(at: fixture.folder, includingPropertiesForKeys: nil)?
                        .compactMap { $0 as? URL } ?? [])
                { try own(url) }
            }

            /// Gives the user a file.
            func own(_ url: URL) throws {
                if isRoot { try #require(chown(url.path, identifier, identifier) == 0) }
            }

            /// Keeps the user from writing a file.
            func forbid(_ url: URL) throws {
                if isRoot { try #require(chown(url.path, 0, 0) == 0) }
                try #require(chmod(url.path, isRoot ? 0o644 : 0o444) == 0)
            }

            func run(_ arguments: [String]) async throws -> CommandResult {
                guard isRoot else { return try await fixture.run(arguments) }
                let user = ["--reuid=\(identifier)", "--regid=\(identifier)", "--clear-groups", "--"]
                return try await ChildProcess(
                    URL(filePath: "/usr/bin/setpriv"),
                    user + [ChildProcess.storesync.path] + arguments,
                    environment: fixture.environment
                ).finish()
            }
        }

        @Test("Local changes are kept unless --overwrite discards them")
        func localChanges() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            try desktop.write("never synchronized")
            let before = try Listing(of: desktop.home).withoutState
            try expectFailure(try await desktop.pull(), 65, "localChanges")
            #expect(try Listing(of: desktop.home).withoutState == before)
            #expect(try await desktop.pull("--overwrite").status == 0)
            #expect(try desktop.notes() == ["one"])
            try desktop.write("changed")
            try await laptop.push(adding: "two")
            try expectFailure(try await desktop.pull(), 65, "localChanges")
            #expect(try desktop.notes() == ["one", "changed"])
            #expect(try await desktop.pull("--overwrite").json()["generation"]?.number == 2)
            #expect(try desktop.notes() == ["one", "two"])
        }

        @Test("Diverged stores are named with their clients, and --from selects one")
        func diverged() async throws {
            let fixture = try Fixture()
            let (laptop, desktop, phone) = (
                try fixture.device("laptop"), try fixture.device("desktop"), try fixture.device("phone")
            )
            try laptop.write("both")
            let first = try #require(try await laptop.push().json()["client"]?.string)
            #expect(try await desktop.pull().status == 0)
            try laptop.write("laptop")
            try desktop.write("desktop")
            #expect(try await laptop.push().status == 0)
            let second = try #require(try await desktop.push().json()["client"]?.string)
            let pull = try await phone.pull()
            try expectFailure(pull, 65, "diverged")
            #expect(try pull.errorMessage().contains(first))
            #expect(try pull.errorMessage().contains(second))
            #expect(try pull.errorMessage().contains("--from"))
            #expect(!FileManager.default.fileExists(atPath: phone.store.path))
            let chosen = try await phone.pull("--from", second)
            #expect(chosen.status == 0, "\(chosen)")
            #expect(try chosen.json()["from"]?.string == second)
            #expect(try phone.notes() == ["both", "desktop"])
            // After the user has resolved the divergence, all devices continue from that store.
            let settled = try await phone.push("--resolves")
            #expect(settled.status == 0, "\(settled)")
            #expect(try await laptop.pull().status == 0)
            #expect(try laptop.notes() == ["both", "desktop"])
        }

        @Test("A generation is selected by its number, and a wrong number is an error")
        func generations() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let client = try #require(try await laptop.push().json()["client"]?.string)
            try await laptop.push(adding: "two")
            #expect(try await desktop.pull().status == 0)
            let former = try await desktop.pull("--from", client, "--generation", "1")
            #expect(former.status == 0, "\(former)")
            #expect(try former.json()["generation"]?.number == 1)
            #expect(try desktop.notes() == ["one"])
            try expectFailure(try await desktop.pull("--generation", "1"), 64, "usage")
            for wrong in ["new", "1-"] {
                try expectFailure(try await desktop.pull("--from", client, "--generation", wrong), 64, "usage")
            }
            try expectFailure(try await desktop.pull("--from", client, "--generation", "7"), 66, "noUploadedStore")
            #expect(try await desktop.pull().json()["generation"]?.number == 2)
        }

        @Test("A store that descends from no upload is refused with 65, and a missing document with 66")
        func strangersAndVanished() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            try desktop.write("other")
            let refused = try await desktop.push()
            try expectFailure(refused, 65, "unrelatedStore")
            #expect(try refused.errorMessage().contains("--resolves"))
            let info = fixture.share.appending(path: "org.example.notes/Documents/notes/documentInfo.plist")
            try FileManager.default.removeItem(at: info)
            let before = try Listing(of: fixture.share)
            try laptop.write("two")
            try expectFailure(try await laptop.push(), 66, "documentMissing")
            try expectFailure(try await laptop.pull("--overwrite"), 66, "documentMissing")
            #expect(try Listing(of: fixture.share) == before)
        }

        @Test("A moved store is recognized, and --whole pushes a whole copy")
        func movedAndWhole() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try await laptop.push(adding: "one")
            let new = laptop.home.appending(path: "moved.sqlite")
            try FileManager.default.moveItem(at: laptop.store, to: new)
            let moved = try await fixture.run(
                ["push", new.path, "--document", "notes", "--no-encrypt"] + laptop.options + ["--json"]
            )
            #expect(try moved.json()["unchanged"]?.boolean == true, "\(moved)")
            let whole = try await fixture.run(
                ["push", new.path, "--document", "notes", "--no-encrypt", "--whole"] + laptop.options + ["--json"]
            )
            #expect(try whole.json()["generation"]?.number == 2, "\(whole)")
        }

        @Test("A client is removed after a confirmation, and is deregistered then")
        func removeClient() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            let own = try #require(try await laptop.push().json()["client"]?.string)
            let client = try #require(try await desktop.pull().json()["client"]?.string)
            try expectFailure(try await laptop.run("remove", "client", client), 64, "usage")
            try expectFailure(try await laptop.run("remove", "client", "missing", "--yes"), 66, "clientNotFound")
            try expectFailure(try await laptop.run("remove", "client", own, "--yes"), 64, "invalidIdentifier")
            let removed = try await laptop.run("remove", "client", client, "--yes")
            #expect(removed.status == 0, "\(removed)")
            #expect(try removed.json()["client"]?.string == client)
            #expect(try await laptop.run("status").json()["clients"]?.array?.count == 1)
            try expectFailure(try await desktop.pull(), 77, "deregistered")
            #expect(try await laptop.run("verify").status == 0)
        }

        @Test("A share that was restored to an older state is refused, and --accept-rollback accepts it")
        func rollback() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            let backup = fixture.folder.appending(path: "backup")
            try FileManager.default.copyItem(at: fixture.share, to: backup)
            try await laptop.push(adding: "two")
            #expect(try await desktop.pull().status == 0)
            try FileManager.default.removeItem(at: fixture.share)
            try FileManager.default.moveItem(at: backup, to: fixture.share)

            try expectFailure(try await desktop.pull(), 65, "rolledBack")
            #expect(try desktop.notes() == ["one", "two"])
            let accepted = try await desktop.pull("--accept-rollback")
            #expect(accepted.status == 0, "\(accepted)")
            #expect(try accepted.json()["generation"]?.number == 1)
            #expect(try desktop.notes() == ["one"])
            #expect(try await desktop.pull().status == 0)
        }

        @Test("A store that was damaged on the remote is refused, and the local side stays unchanged")
        func damaged() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            try fixture.flipByte(at: 100, of: fixture.uploaded("WholeStore.ticdsync"))
            try expectFailure(try await desktop.pull(), 65, "corrupt")
            #expect(try Listing(of: desktop.home).withoutState.isEmpty)
        }
    }

    @Suite("Verify reports problems, and repairs this device's own files", .serialized)
    struct VerifyTests {
        @Test("A flipped byte in a store is a problem with its path, and the status is 65")
        func flippedByte() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try await laptop.push(adding: "one")
            let file = try fixture.uploaded("WholeStore.ticdsync")
            try fixture.flipByte(at: 100, of: file)
            let result = try await laptop.run("verify")
            #expect(result.status == 65, "\(result)")
            let problems = try #require(try result.json()["problems"]?.array)
            let path = String(file.path.dropFirst(fixture.share.path.count + 1))
            #expect(problems.contains { $0["path"]?.string == path && $0["code"]?.string == "corrupt" }, "\(problems)")
            #expect(problems.allSatisfy { $0.keys == ["path", "code", "message"] })
            // The text output says the same.
            let text = try await fixture.run(["verify"] + laptop.options)
            #expect(text.status == 65)
            #expect(text.output.contains(path))
            let quiet = try await fixture.run(["verify", "--quiet"] + laptop.options)
            #expect(quiet.status == 65 && quiet.output.isEmpty && quiet.errorOutput.contains(path), "\(quiet)")
            // New pushes repair the application: the second one removes the damaged store.
            for note in ["two", "three"] {
                try await laptop.push(adding: note)
            }
            #expect(try await laptop.run("verify").status == 0)
        }

        @Test("A truncated store or manifest is a problem with its path")
        func damage() async throws {
            let template = try Fixture()
            let laptop = try template.device("laptop")
            try await laptop.push(adding: "one")
            let upload = try template.uploaded("WholeStore.ticdsync")
            let manifest = template.share.appending(path: try #require(template.manifests().first))
            for file in [upload, manifest] {
                let content = try Data(contentsOf: file)
                try content.prefix(content.count / 2).write(to: file)
                let result = try await laptop.run("verify")
                #expect(result.status == 65, "\(result)")
                let path = String(file.path.dropFirst(template.share.path.count + 1))
                #expect(try #require(try result.json()["problems"]?.array).contains { $0["path"]?.string == path })
                try content.write(to: file)
                #expect(try await laptop.run("verify", "--repair").status == 0)
            }
        }

        @Test("Files of file managers and synchronizing folders are warnings, and clients ignore them")
        func strangers() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try await laptop.push(adding: "one")
            let files = FileManager.default
            let directories = try Listing(of: fixture.share).directories + [""]
            for directory in directories {
                let url = fixture.share.appending(path: directory)
                try Data("\0\0\0\u{1}Bud1".utf8).write(to: url.appending(path: ".DS_Store"))
                try files.createDirectory(at: url.appending(path: ".stfolder"), withIntermediateDirectories: false)
            }
            let manifest = fixture.share.appending(path: try #require(fixture.manifests().first))
            let name = manifest.deletingPathExtension().lastPathComponent
            for copy in [
                "\(name) (laptop's conflicted copy 2026-01-01).plist",
                "\(name).sync-conflict-20260101-120000-ABCDEFG.plist",
                "\(name) 2.plist",
            ] {
                try files.copyItem(at: manifest, to: manifest.deletingLastPathComponent().appending(path: copy))
            }
            let store = try fixture.uploaded("WholeStore.ticdsync")
            try files.copyItem(
                at: store,
                to: store.deletingLastPathComponent().appending(path: "WholeStore (conflicted copy).ticdsync")
            )
            for arguments in [["verify"], ["verify", "--repair"]] {
                let result = try await fixture.run(arguments + laptop.options + ["--json"])
                #expect(result.status == 0, "\(result)")
                let report = try result.json()
                #expect(report["problems"] == .array([]))
                #expect(report["repaired"] == .array([]))
                let warnings = try #require(report["warnings"]?.array).compactMap(\.string)
                #expect(warnings.contains { $0.contains(".DS_Store") })
                #expect(warnings.contains { $0.contains("sync-conflict") })
            }
            let status = try await laptop.run("status").json()
            #expect(status["clients"]?.array?.count == 1)
            #expect(status["documents"]?.array?.count == 1)
            let pull = try await desktop.pull()
            #expect(pull.status == 0, "\(pull)")
            #expect(try desktop.notes() == ["one"])
            try await desktop.push(adding: "two")
            #expect(try await laptop.pull().status == 0)
            #expect(try laptop.notes() == ["one", "two"])
        }

        @Test("--repair creates missing parts, and refreshes the fixed names that others read")
        func repair() async throws {
            let fixture = try Fixture()
            let laptop = try fixture.device("laptop")
            try await laptop.push(adding: "one")
            let before = try Listing(of: fixture.share)
            let root = fixture.share.appending(path: "org.example.notes")
            let files = FileManager.default
            try files.removeItem(at: root.appending(path: "Information/DeletedClients"))
            try files.removeItem(at: root.appending(path: "Documents/notes/TemporaryFiles/WholeStore"))
            let client = try #require(try await laptop.run("status").json()["client"]?.string)
            let fixed = root.appending(path: "Documents/notes/WholeStore/\(client)/WholeStore.ticdsync")
            try files.removeItem(at: fixed)
            try Data("stale".utf8).write(to: fixed)

            let verify = try await laptop.run("verify")
            #expect(verify.status == 65)
            // Another device reports the problem too, but it doesn't touch another client's files.
            let damaged = try Listing(of: fixture.share)
            #expect(try await fixture.device("stranger").run("verify", "--repair").status == 65)
            #expect(try Listing(of: fixture.share) == damaged)

            let repair = try await laptop.run("verify", "--repair")
            #expect(repair.status == 0, "\(repair)")
            #expect(try #require(try repair.json()["repaired"]?.array).count == 3)
            #expect(try Listing(of: fixture.share) == before)
            #expect(try await laptop.run("verify").json()["warnings"] == .array([]))
        }
    }
}
