import Foundation
import GRDB
import Testing
import ThreadSupport

@testable import StoreSyncCommand

extension CommandTests {
    @Suite("sync --watch continues until it's ended", .serialized)
    struct WatchTests {
        private func execute(_ sql: String, _ device: Device) throws {
            let queue = try DatabaseQueue(path: device.store.path, configuration: .ofApp)
            defer { try? queue.close() }
            try queue.write { try $0.execute(sql: sql) }
        }

        private func titles(_ device: Device) throws -> Set<String> {
            let queue = try DatabaseQueue(path: device.store.path, configuration: .ofApp)
            defer { try? queue.close() }
            return try queue.read { try Set(String.fetchAll($0, sql: "SELECT title FROM note")) }
        }

        /// A device whose store uses a write-ahead log.
        private func laptop(_ fixture: Fixture) throws -> Device {
            let laptop = try fixture.device("laptop")
            try execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL)", laptop)
            let queue = try DatabaseQueue(path: laptop.store.path)
            try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = wal") }
            try queue.close()
            return laptop
        }

        private func watch(
            _ device: Device,
            _ arguments: [String] = ["--json"],
            environment: [String: String] = [:],
            onTerminal: Bool = false,
            reactions: [ChildProcess.Reaction] = []
        ) throws -> ChildProcess {
            try device.fixture.start(
                ["sync", device.store.path, "--document", "notes", "--no-encrypt", "--watch"] + device.options
                    + arguments,
                environment: environment,
                onTerminal: onTerminal,
                reactions: reactions
            )
        }

        /// Waits for the line of a synchronization that changed the store.
        private func arrival(_ child: ChildProcess) async throws {
            _ = try #require(try await child.line { try JSON(line: $0)["applied"]?.keys.isEmpty == false })
        }

        /// Waits for the line of a synchronization that published something.
        private func publication(_ child: ChildProcess) async throws {
            _ = try #require(
                try await child.line { line in
                    try JSON(line: line)["published"]?["bytes"].map { $0 != .number(0) } ?? false
                }
            )
        }

        /// Waits for the line of a synchronization that did nothing: nothing follows until something changes.
        private func quiet(_ child: ChildProcess) async throws {
            _ = try #require(
                try await child.line { line in
                    let object = try JSON(line: line)
                    return object["applied"]?.keys == [] && object["published"]?["bytes"] == .number(0)
                }
            )
        }

        @Test("Edits of two devices reach each other at once, one object a line for each synchronization")
        func twoDevices() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try laptop(fixture), try fixture.device("desktop"))
            let onLaptop = try watch(laptop)
            _ = try #require(await onLaptop.line())
            let onDesktop = try watch(desktop)
            _ = try #require(await onDesktop.line())
            for round in 1...3 {
                try execute("INSERT INTO note (title) VALUES ('of the laptop \(round)')", laptop)
                try await arrival(onDesktop)
                try execute("INSERT INTO note (title) VALUES ('of the desktop \(round)')", desktop)
                try await arrival(onLaptop)
            }
            #expect(try titles(laptop).count == 6)
            #expect(try titles(desktop) == titles(laptop))
            for child in [onLaptop, onDesktop] { child.signal(SIGTERM) }
            for child in [onLaptop, onDesktop] {
                let result = await child.finish()
                #expect(result.status == 0, "\(result)")
                let objects = try result.output.split(separator: "\n").map { try JSON(line: String($0)) }
                let synchronizations = objects.filter { $0["command"]?.string == "sync" }
                #expect(synchronizations.count == objects.count)
                // Two for each edit, and some in the beginning: no ping-pong.
                #expect(synchronizations.count < 24, "\(result)")
            }
            let sync = ["sync", laptop.store.path, "--document", "notes", "--no-encrypt", "--json"]
            #expect(try await fixture.run(sync + laptop.options).status == 0)
        }

        @Test("A signal while nothing is synchronized ends it with 0", arguments: InterruptionTests.signals)
        func signals(signal: Int32) async throws {
            let fixture = try Fixture()
            let child = try watch(try laptop(fixture))
            try await quiet(child)
            child.signal(signal)
            let result = await child.finish()
            #expect(result.status == 0 && result.signal == nil, "\(result)")
            #expect(!result.output.contains("error"))
        }

        @Test(
            "Repeated hangups end it with 0, and have no effect if its parent ignores them",
            arguments: [false, true]
        )
        func hangups(isIgnored: Bool) async throws {
            let fixture = try Fixture()
            let device = try laptop(fixture)
            let watch = ["sync", device.store.path, "--document", "notes", "--no-encrypt", "--watch", "--json"]
            // If these tests run under nohup, the shell can't stop ignoring it.
            let child = try ChildProcess(
                URL(filePath: "/bin/sh"),
                ["-c", "\(isIgnored ? "trap '' HUP; " : "")exec \"$@\"", "sh", ChildProcess.storesync.path] + watch
                    + device.options,
                environment: fixture.environment
            )
            try await quiet(child)
            for _ in 0..<3 { child.signal(SIGHUP) }
            if isIgnored || !Interruption.signals.contains(SIGHUP) {
                try execute("INSERT INTO note (title) VALUES ('written afterwards')", device)
                try await publication(child)
                child.signal(SIGTERM)
            }
            let result = await child.finish()
            #expect(result.status == 0 && result.signal == nil, "\(result)")
        }

        @Test("A signal during a synchronization ends it with 0, too", arguments: InterruptionTests.signals)
        func signalsDuringWork(signal: Int32) async throws {
            let fixture = try Fixture()
            let device = try laptop(fixture)
            // The first synchronization is in progress when it shows how far it is.
            let work = ChildProcess.Reaction(text: "░") { $0.signal(signal) }
            let result = await (try watch(device, onTerminal: true, reactions: [work])).finish()
            #expect(result.status == 0 && !result.output.contains("error"), "\(result)")
        }

        @Test("A signal at a question interrupts it as any other command", arguments: InterruptionTests.signals)
        func signalsAtQuestion(signal: Int32) async throws {
            let fixture = try Fixture()
            let device = try laptop(fixture)
            let question = ChildProcess.Reaction(text: "[y/n]") { $0.signal(signal) }
            let child = try fixture.start(
                ["sync", device.store.path, "--document", "notes", "--watch", "--json"] + device.options,
                onTerminal: true,
                reactions: [question]
            )
            try expectFailure(await child.finish(), 128 + signal, "interrupted")
        }

        @Test("It survives a storage folder that goes and comes back, and tells that on standard error")
        func awayAndBack() async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try laptop(fixture), try fixture.device("desktop"))
            let away = fixture.folder.appending(path: "away")
            let isBack = Locked(false)
            let back = ChildProcess.Reaction(text: "[remoteUnavailable]") { _ in
                isBack.withLock { $0 = true }
                try? FileManager.default.moveItem(at: away, to: fixture.share)
            }
            // With --quiet, a failure is printed once.
            let onLaptop = try watch(laptop, ["--json", "--quiet"], reactions: [back])
            try await quiet(onLaptop)
            let onDesktop = try watch(desktop, ["--json", "--quiet"])
            try await quiet(onDesktop)
            try FileManager.default.moveItem(at: fixture.share, to: away)
            try execute("INSERT INTO note (title) VALUES ('written meanwhile')", laptop)
            try await arrival(onDesktop)
            #expect(isBack.withLock { $0 })
            #expect(try titles(desktop) == ["written meanwhile"])
            for child in [onLaptop, onDesktop] {
                child.signal(SIGTERM)
                let result = await child.finish()
                #expect(result.output.split(separator: "\n").dropLast().allSatisfy { !$0.contains("error") })
                #expect(result.errorOutput.components(separatedBy: "[remoteUnavailable]").count <= 2, "\(result)")
            }
        }

        @Test("It survives a store that goes and comes back, and ends if there is none in the beginning")
        func storeAwayAndBack() async throws {
            let fixture = try Fixture()
            let device = try laptop(fixture)
            let away = fixture.folder.appending(path: "away.sqlite")
            let early = try watch(device, ["--json", "--quiet"])
            try await quiet(early)
            early.signal(SIGTERM)
            #expect(await early.finish().status == 0)
            try FileManager.default.moveItem(at: device.store, to: away)
            let failed = await (try watch(device)).finish()
            #expect(failed.status == 66 && failed.output.contains("isn't there any more"), "\(failed)")
            try FileManager.default.moveItem(at: away, to: device.store)
            let back = ChildProcess.Reaction(text: "[storeNotFound]") { _ in
                try? FileManager.default.moveItem(at: away, to: device.store)
            }
            // With --quiet, a failure is printed once.
            let child = try watch(device, ["--json", "--quiet"], reactions: [back])
            try await quiet(child)
            try FileManager.default.moveItem(at: device.store, to: away)
            try await quiet(child)
            try execute("INSERT INTO note (title) VALUES ('written afterwards')", device)
            try await publication(child)
            child.signal(SIGTERM)
            let result = await child.finish()
            #expect(result.status == 0 && !result.output.contains("error"), "\(result)")
            #expect(result.errorOutput.components(separatedBy: "[storeNotFound]").count == 2, "\(result)")
        }

        @Test("An error that stays ends it with the error's object and status")
        func fatalError() async throws {
            let fixture = try Fixture()
            let laptop = try laptop(fixture)
            let child = try watch(laptop)
            try await quiet(child)
            let copy = try Data(contentsOf: laptop.store)
            try execute("INSERT INTO note (title) VALUES ('milk')", laptop)
            try await publication(child)
            try await quiet(child)
            try copy.write(to: laptop.store, options: .atomic)
            let result = await child.finish()
            #expect(result.status == 65, "\(result)")
            let last = try JSON(line: result.output.split(separator: "\n").last.map(String.init) ?? "")
            #expect(last["error"]?["code"]?.string == "storeReplaced")
        }

        @Test(
            "It ends when another device removes the document or this client, though no edit follows",
            arguments: [
                ("document", 66, "documentDeleted"), ("client", 77, "deregistered"),
            ] as [(String, Int32, String)]
        )
        func removal(kind: String, status: Int32, code: String) async throws {
            let fixture = try Fixture()
            let (laptop, desktop) = (try laptop(fixture), try fixture.device("desktop"))
            let sync = ["sync", laptop.store.path, "--document", "notes", "--no-encrypt", "--json"]
            // The first listing of the watch has this device's record then.
            let client = try #require(try await fixture.run(sync + laptop.options).json()["client"]?.string)
            let child = try watch(laptop)
            try await quiet(child)
            let name = kind == "client" ? client : "notes"
            #expect(try await desktop.run("remove", kind, name, "--yes").status == 0)
            let result = await child.finish()
            #expect(result.status == status, "\(result)")
            let last = try JSON(line: result.output.split(separator: "\n").last.map(String.init) ?? "")
            #expect(last["error"]?["code"]?.string == code)
        }

        @Test("Without --json, a synchronization that does something is one line; a terminal shows the state")
        func text() async throws {
            let fixture = try Fixture()
            let laptop = try laptop(fixture)
            let ready = ChildProcess.Reaction(text: "Watching for changes.") { _ in
                let queue = try? DatabaseQueue(path: laptop.store.path, configuration: .ofApp)
                try? queue?.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('milk')") }
            }
            let child = try watch(laptop, [], onTerminal: true, reactions: [ready])
            for end in ["uploaded store.sqlite", "published 1 edit"] {
                let line = try #require(await child.line())
                #expect(line.hasSuffix(end), "\(line)")
                #expect(line.prefixMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil, "\(line)")
            }
            child.signal(SIGTERM)
            let result = await child.finish()
            #expect(result.status == 0)
            #expect(result.output.split(separator: "\n").count == 2, "\(result)")
        }

        #if os(Linux)
        @Test("It tells systemd when it's ready and when it stops", arguments: ["", "@"])
        func notification(prefix: String) async throws {
            let fixture = try Fixture()
            let name = prefix + fixture.folder.appending(path: "notify").path
            let socket = try NotificationSocket(name)
            let child = try watch(try laptop(fixture), environment: ["NOTIFY_SOCKET": name])
            #expect(try await runBlocking { try socket.receive() } == "READY=1")
            try await quiet(child)
            child.signal(SIGTERM)
            #expect(try await runBlocking { try socket.receive() } == "STOPPING=1")
            #expect(await child.finish().status == 0)
        }

        @Test("A service manager that was busy is told at the next synchronization that the watch is ready")
        func busyServiceManager() async throws {
            let fixture = try Fixture()
            let device = try laptop(fixture)
            let name = "@" + fixture.folder.path
            let socket = try NotificationSocket(name)
            let count = try await runBlocking {
                let other = ServiceManager(["NOTIFY_SOCKET": name])
                // Until there's no room for another message.
                return (0...).prefix { _ in other.notify("BUSY=1") }.count
            }
            // This shows after the watch has failed to tell that it's ready.
            let ready = ChildProcess.Reaction(text: "Watching for changes.") { _ in
                for _ in 0..<count { _ = try? socket.receive() }
                try? execute("INSERT INTO note (title) VALUES ('milk')", device)
            }
            let environment = ["NOTIFY_SOCKET": name]
            let child = try watch(device, environment: environment, onTerminal: true, reactions: [ready])
            _ = try #require(try await child.line { try JSON(line: $0)["published"]?["changes"] == .number(1) })
            child.signal(SIGTERM)
            for message in ["READY=1", "STOPPING=1"] {
                #expect(try await runBlocking { try socket.receive() } == message)
            }
            #expect(await child.finish().status == 0)
        }
        #endif
    }
}

extension JSON {
    fileprivate init(line: String) throws {
        self = try JSONDecoder().decode(JSON.self, from: Data(line.utf8))
    }
}

#if os(Linux)
/// The socket on which systemd listens.
private final class NotificationSocket: Sendable {
    private let descriptor: Int32

    /// Creates it under a path, or under an abstract name, which begins with an @.
    init(_ name: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = name.utf8.map { $0 == UInt8(ascii: "@") ? 0 : $0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let result = withUnsafeBytes(of: address) { address in
            address.withMemoryRebound(to: sockaddr.self) {
                bind(descriptor, $0.baseAddress, socklen_t(MemoryLayout<sa_family_t>.size + bytes.count))
            }
        }
        guard descriptor >= 0, result == 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
    }

    deinit { close(descriptor) }

    /// Waits for a message.
    func receive() throws -> String {
        var buffer = [UInt8](repeating: 0, count: 1 << 12)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        return String(decoding: buffer[..<count], as: UTF8.self)
    }
}
#endif

extension Configuration {
    /// Waits while a synchronization has a lock, as an app does.
    static var ofApp: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        return configuration
    }
}
