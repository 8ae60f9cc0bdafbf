import ArgumentParser
import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography

/// `storesync demo`: shows the whole job between two devices, which are two folders.
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract:
            "Shows the whole job in a temporary folder: two devices exchange a store, edit it at once, and merge."
    )

    @Flag(help: "Keep all files for inspection.")
    var keep = false

    @OptionGroup var output: OutputOptions

    private struct Result: Encodable {
        var command = "demo"
        let generation: Int
        let bytes: Int64
        let rows: Int
        let encrypted: Bool
        let equal: Bool
        /// Whether edits that both devices made at once are in both stores.
        let merged: Bool
        let seconds: Double
        let kept: String?
    }

    func run() async throws {
        try await Session.run(output) { interruption in
            let start = ContinuousClock.now
            let report = Report(output)
            let folder = FileManager.default.temporaryDirectory
                .appending(path: "storesync-demo-\(UUID().uuidString)", directoryHint: .isDirectory)
            defer { if !keep { try? FileManager.default.removeItem(at: folder) } }
            let setup = try DemoSetup(folder)
            let upload = try await show(setup, interruption, report)
            try report.result(
                Result(
                    generation: upload.generation,
                    bytes: upload.bytes,
                    rows: DemoSetup.rows,
                    encrypted: upload.isEncrypted,
                    equal: true,
                    merged: true,
                    seconds: (ContinuousClock.now - start) / .seconds(1),
                    kept: keep ? folder.path : nil
                ),
                lines: ["Both devices hold the same \(DemoSetup.rows) notes. That was the whole job."]
                    + (keep ? ["Everything is still in \(folder.path)."] : [])
            )
        }
    }

    private func show(
        _ setup: DemoSetup,
        _ interruption: Interruption,
        _ report: Report
    ) async throws -> WholeStoreUpload {
        try report.step("1. A shared folder, and two devices: a laptop and a desktop.")
        let laptop = try await setup.device("laptop", interruption.supervisor)
        let desktop = try await setup.device("desktop", interruption.supervisor)
        try report.step(
            "2. The laptop has a store: an SQLite database with \(DemoSetup.rows) notes, open while it is synchronized."
        )
        let open = try setup.makeStore()
        defer { try? open.close() }
        let upload = try await interruption.value(of: laptop.document.upload(storeAt: setup.laptopStore))
        try report.step(
            "3. The laptop pushed it: application, document and generation \(upload.generation) are in the folder, sealed by a password; \(upload.bytes.byteCount) are stored as \(upload.storedBytes.byteCount)."
        )
        let request = WholeStoreDownloadRequest(url: setup.desktopStore)
        let download = try await interruption.value(of: desktop.document.download(request))
        try report.step(
            "4. The desktop gave the password and pulled it: generation \(download.generation), opened and verified, \(download.bytes.byteCount)."
        )
        try setup.compare()
        try report.step("5. Both stores were read and compared: every row is the same.")
        let devices = [(laptop, setup.laptopStore), (desktop, setup.desktopStore)]
        for device in devices { try await synchronize(device, interruption) }
        try setup.edit("title = 'Shopping'", at: setup.laptopStore)
        try setup.edit("body = 'Milk and bread'", at: setup.desktopStore)
        try report.step("6. Both edited the same note at once: the laptop its title, the desktop its body.")
        for device in devices + devices.prefix(1) { try await synchronize(device, interruption) }
        try setup.compare(title: "Shopping", body: "Milk and bread")
        try report.step("7. Each synchronized its edit, record by record: both stores have both.")
        withExtendedLifetime((laptop, desktop)) {}
        return upload
    }

    private func synchronize(
        _ device: (device: DemoSetup.Device, store: URL),
        _ interruption: Interruption
    ) async throws {
        let request = SynchronizationRequest(url: device.store)
        _ = try await interruption.value(of: device.device.document.synchronize(request))
    }
}

/// The folder in which the demo takes place.
private struct DemoSetup: Sendable {
    static let rows = 20_000

    let folder: URL
    /// The password that both devices use.
    let password: Password
    var laptopStore: URL { folder.appending(path: "laptop/notes.sqlite") }
    var desktopStore: URL { folder.appending(path: "desktop/notes.sqlite") }

    /// A device: its manager for the document, and the delegate that answers its questions.
    struct Device {
        let document: DocumentSyncManager
        let delegate: CommandDelegate
    }

    init(_ folder: URL) throws {
        self.folder = folder
        password = try Password(UUID().uuidString)
        // Not with the directories above it, which would be left behind.
        for directory in [folder] + ["share", "laptop", "desktop"].map({ folder.appending(path: $0) }) {
            do {
                try FileManager.default.createDirectory(
                    at: directory,
                    withIntermediateDirectories: false,
                    attributes: [.posixPermissions: 0o700]
                )
            } catch {
                throw StoreSyncError.noTemporaryDirectory(error)
            }
        }
    }

    func device(_ name: String, _ supervisor: OperationSupervisor) async throws -> Device {
        let delegate = await CommandDelegate(encrypts: true, password: password, recreates: false)
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: name,
            backend: LocalFolderBackend(root: folder.appending(path: "share")),
            state: try StateDirectory(url: folder.appending(path: "\(name)/state")),
            supervisor: supervisor,
            delegate: delegate
        )
        return Device(document: manager.document(try RemoteIdentifier("notes")), delegate: delegate)
    }

    /// Creates the store and leaves it open, with pages that exist only in the write-ahead log.
    func makeStore() throws -> DatabasePool {
        let pool = try DatabasePool(path: laptopStore.path)
        try pool.write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL)")
            for number in 1...Self.rows {
                try db.execute(
                    sql: "INSERT INTO note (title, body) VALUES (?, ?)",
                    arguments: ["Note \(number)", Self.text(number)]
                )
            }
        }
        return pool
    }

    /// Edits the first note.
    func edit(_ assignment: String, at store: URL) throws {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        try queue.write { try $0.execute(sql: "UPDATE note SET \(assignment) WHERE id = 1") }
    }

    /// Checks that both stores have the same notes, and what the first one says.
    func compare(title: String = "Note 1", body: String = text(1)) throws {
        let rows = try [laptopStore, desktopStore].map { url in
            let queue = try DatabaseQueue(path: url.path)
            defer { try? queue.close() }
            return try queue.read { db in
                guard try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok" else { return [Row]() }
                return try Row.fetchAll(db, sql: "SELECT * FROM note ORDER BY id")
            }
        }
        guard rows[0].count == Self.rows, rows[0] == rows[1], rows[0][0]["title"] == title, rows[0][0]["body"] == body
        else { throw StoreSyncError(.corrupt, "The two stores differ. That must not happen: please report it.") }
    }

    static func text(_ number: Int) -> String { String(repeating: "Lorem ipsum \(number). ", count: 8) }
}
