import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreSync
import Testing

// The code between the marks is also in the documentation.

@Suite("Apps for Apple devices")
struct AppsForAppleDevicesTests {
    @Test("The example of the article on Apple devices names what has another path later")
    func paths() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apple-\(UUID().uuidString)")
        let (container, support) = (folder, folder.appending(path: "Library/Application Support"))
        let share = folder.appending(path: "share")
        try FileManager.default.createDirectory(at: support, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // DOC: paths
        let state = try await StateDirectory.open(at: support.appending(path: "sync"), root: container)
        let remote = LocalFolderBackend(root: share, identity: "the family's folder")
        // DOC: end
        #expect(remote.identity == "the family's folder")
        _ = state
    }
}

#if canImport(UIKit)
import BackgroundTasks
import UIKit

// DOC: background
/// Lets operations end in the background, and then tells all databases to release their locks.
@MainActor final class BackgroundSync {
    private let supervisor: OperationSupervisor
    // A process that iOS starts for a refresh is in the background from its start.
    private var isInBackground = true
    /// How many parts of the app use databases in the background.
    private var uses = 0

    init(_ supervisor: OperationSupervisor) { self.supervisor = supervisor }

    /// Call it from `sceneDidEnterBackground`.
    func enterBackground() {
        isInBackground = true
        uses += 1
        // Taken even if the supervisor has no work, because the app's own connection may hold a lock.
        let task = UIApplication.shared.beginBackgroundTask()
        Task {
            await supervisor.enterBackground(grace: .seconds(20), provider: BackgroundTask(sync: self))
            await endUse()
            UIApplication.shared.endBackgroundTask(task)
        }
    }

    /// Call it from `sceneWillEnterForeground`.
    func enterForeground() {
        isInBackground = false
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        Task { await supervisor.enterForeground() }
    }

    /// Call it from the launch handler of a `BGAppRefreshTask`, on the main queue.
    func refresh(_ task: BGAppRefreshTask, _ notes: DocumentSyncManager, _ request: SynchronizationRequest) {
        uses += 1
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        let options = OperationOptions(userInfo: ["refresh": true], mayContinueInBackground: true)
        let handle = notes.synchronize(request, options: options)
        task.expirationHandler = { [supervisor] in
            // The synchronization and the steps before it.
            for operation in supervisor.operations where operation.userInfo["refresh"] != nil { operation.cancel() }
        }
        Task {
            let result = await handle.result
            await endUse()
            task.setTaskCompleted(success: (try? result.get()) != nil)
        }
    }

    fileprivate func begin(_ expired: @escaping @Sendable () -> Void) -> Int? {
        let task = UIApplication.shared.beginBackgroundTask(expirationHandler: expired)
        guard task != .invalid else {
            expired()
            return nil
        }
        uses += 1
        return task.rawValue
    }

    fileprivate func end(_ identifier: Int) async {
        await endUse()
        UIApplication.shared.endBackgroundTask(UIBackgroundTaskIdentifier(rawValue: identifier))
    }

    private func endUse() async {
        for operation in supervisor.operations where isInBackground && (operation.isExecuting || operation.isPaused) {
            // A cancelled operation may still be ending, and hold a lock.
            await withCheckedContinuation { ended in operation.whenEnded { ended.resume() } }
        }
        uses -= 1
        if uses == 0, isInBackground {
            NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
        }
    }
}

/// The background task that a supervisor takes while its operations end.
struct BackgroundTask: BackgroundActivityProvider {
    let sync: BackgroundSync

    func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int? { await sync.begin(expired) }

    func endActivity(_ identifier: Int) async { await sync.end(identifier) }
}
// DOC: end

// DOC: folder
/// A folder that the user picked, which the app may use for as long as this exists.
final class PickedFolder: Sendable {
    let url: URL
    /// Whether the app has to save a new bookmark.
    let isBookmarkStale: Bool

    /// Opens a folder by the `bookmarkData()` of the URL that the user picked.
    init(bookmark: Data) throws {
        var isStale = false
        url = try URL(resolvingBookmarkData: bookmark, bookmarkDataIsStale: &isStale)
        isBookmarkStale = isStale
        guard url.startAccessingSecurityScopedResource() else { throw CocoaError(.fileReadNoPermission) }
    }

    deinit { url.stopAccessingSecurityScopedResource() }
}
// DOC: end
#endif
