import Diary
import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import StoreSync
import SyncCryptography

/// Gives the password of the diary.
@MainActor final class Questions: ApplicationSyncDelegate {
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        .encrypted(try Password("correct horse"))
    }
}

/// A storage that can't be reached by the first requests for a folder of a name.
actor UnreachableAtFirst: ForwardingBackend {
    nonisolated let base: any RemoteBackend
    private var names: Set<String>

    init(_ base: any RemoteBackend, _ names: Set<String>) {
        self.base = base
        self.names = names
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        if let name = directory.lastComponent, names.remove(name) != nil {
            throw RemoteError(.unavailable, "The storage can't be reached.", path: directory)
        }
        return try await base.list(directory)
    }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        if let name = path.components.first, names.remove(name) != nil {
            throw RemoteError(.unavailable, "The storage can't be reached.", path: path)
        }
        return try await base.status(of: path)
    }
}

/// A folder for one test, with devices in it.
final class Folder: Sendable {
    let url = FileManager.default.temporaryDirectory.appending(path: "diary-\(UUID().uuidString)")
    let diary: RemoteIdentifier

    init() throws {
        diary = try RemoteIdentifier("diary")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func folder(of device: String) throws -> URL {
        let folder = url.appending(path: device)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    func manager(
        of device: String,
        _ backend: any RemoteBackend,
        _ questions: Questions,
        on supervisor: OperationSupervisor = OperationSupervisor()
    ) throws -> ApplicationSyncManager {
        ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.diary"),
            clientDescription: device,
            backend: backend,
            state: try StateDirectory(url: folder(of: device).appending(path: "state")),
            supervisor: supervisor,
            delegate: questions
        )
    }
}

/// A clock that is never late: it returns at once, and remembers for how long it was asked to wait.
actor Waits {
    private(set) var durations: [Duration] = []

    func note(_ duration: Duration) { durations.append(duration) }
}

struct ImpatientClock: Clock {
    typealias Instant = ContinuousClock.Instant
    let waits: Waits

    var now: Instant { .now }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        await waits.note(now.duration(to: deadline))
    }
}
